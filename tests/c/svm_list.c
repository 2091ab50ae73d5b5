/* A linked list in shared virtual memory: built by the host and followed by the device, and the other way round. */
#include "common.h"

enum { LISTS = 16, LENGTH = 100, NODES = LISTS * LENGTH };

typedef struct node {
    struct node *next;
    int list, position;
} node;

static const char *SOURCE =
    "typedef struct node { global struct node *next; int list, position; } node;\n"
    /* Each work-item follows one list and says how many nodes of it are right. */
    "kernel void follow(global node *heads, global int *right)\n"
    "{\n"
    "    int list = get_global_id(0), at = 0;\n"
    "    for (global node *n = heads + list; n && n->list == list && n->position == at; n = n->next)\n"
    "        at++;\n"
    "    right[list] = at;\n"
    "}\n"
    /* Each one builds a list: the head in its place, the other nodes from the last to the first of a block. */
    "kernel void build(global node *heads, global node *others, int length)\n"
    "{\n"
    "    int list = get_global_id(0);\n"
    "    global node *n = heads + list;\n"
    "    for (int at = 0; at < length; at++) {\n"
    "        n->list = list;\n"
    "        n->position = at;\n"
    "        global node *next = others + (list + 1) * (length - 1) - 1 - at;\n"
    "        n->next = at + 1 < length ? next : 0;\n"
    "        n = next;\n"
    "    }\n"
    "}\n"
    /* The nodes of a chain that another allocation's pointer leads to, which no argument names. */
    "kernel void sum(global node *global *start, global int *result)\n"
    "{\n"
    "    int total = 0;\n"
    "    for (global node *n = *start; n; n = n->next)\n"
    "        total += n->position;\n"
    "    *result = total;\n"
    "}\n";

static cl_command_queue queue;

static void *allocate(size_t size)
{
    void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, size, 0);
    REQUIRE(memory != NULL);
    return memory;
}

static void map(cl_map_flags flags, void *memory, size_t size)
{
    CHECK(clEnqueueSVMMap(queue, CL_TRUE, flags, memory, size, 0, NULL, NULL));
}

static void unmap(void *memory)
{
    CHECK(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
}

/* Nodes in an order that no memory is read in by itself. */
static void host_builds(node *nodes)
{
    map(CL_MAP_WRITE_INVALIDATE_REGION, nodes, NODES * sizeof(node));
    for (int list = 0; list < LISTS; list++) {
        node *n = nodes + list;
        for (int at = 0; at < LENGTH; at++) {
            node *next = nodes + LISTS + (at * 37 + list * 11) % (LENGTH - 1) * LISTS + list;
            *n = (node){at + 1 < LENGTH ? next : NULL, list, at};
            n = next;
        }
    }
    unmap(nodes);
}

static void device_follows(cl_kernel follow, node *nodes, int *right)
{
    CHECK(clSetKernelArgSVMPointer(follow, 0, nodes));
    CHECK(clSetKernelArgSVMPointer(follow, 1, right));
    launch(queue, follow, LISTS, 0, NULL, NULL);
    map(CL_MAP_READ, right, LISTS * sizeof(int));
    int sum = 0;
    for (int i = 0; i < LISTS; i++)
        sum += right[i];
    unmap(right);
    printf("the device followed %d of %d nodes of the host's lists\n", sum, NODES);
}

static void device_builds(cl_kernel build, node *nodes)
{
    cl_int length = LENGTH;
    CHECK(clSetKernelArgSVMPointer(build, 0, nodes));
    CHECK(clSetKernelArgSVMPointer(build, 1, nodes + LISTS));
    set_arg(build, 2, sizeof length, &length);
    launch(queue, build, LISTS, 0, NULL, NULL);
    map(CL_MAP_READ, nodes, NODES * sizeof(node));
    int right = 0;
    for (int list = 0; list < LISTS; list++) {
        int at = 0;
        for (node *n = nodes + list; n && n->list == list && n->position == at; n = n->next)
            at++;
        right += at;
    }
    unmap(nodes);
    printf("the host followed %d of %d nodes of the device's lists\n", right, NODES);
}

/* Each node is an allocation of its own, reached only through pointers in memory: the device must be told of them. */
static void scattered(cl_kernel sum, int *result)
{
    enum { COUNT = 20 };
    node *nodes[COUNT];
    node **start = allocate(sizeof *start);
    for (int i = 0; i < COUNT; i++)
        nodes[i] = allocate(sizeof(node));
    for (int i = 0; i < COUNT; i++) {
        map(CL_MAP_WRITE, nodes[i], sizeof(node));
        *nodes[i] = (node){i + 1 < COUNT ? nodes[i + 1] : NULL, 0, i * i};
        unmap(nodes[i]);
    }
    map(CL_MAP_WRITE, start, sizeof *start);
    *start = nodes[0];
    unmap(start);
    CHECK(clSetKernelArgSVMPointer(sum, 0, start));
    CHECK(clSetKernelArgSVMPointer(sum, 1, result));
    CHECK(clSetKernelExecInfo(sum, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof nodes, nodes));
    launch(queue, sum, 1, 0, NULL, NULL);
    map(CL_MAP_READ, result, sizeof *result);
    printf("20 squares reached through pointers: %d\n", *result);
    unmap(result);
    CHECK(clFinish(queue));
    for (int i = 0; i < COUNT; i++)
        clSVMFree(context, nodes[i]);
    clSVMFree(context, start);
}

int main(void)
{
    open_device();
    queue = open_queue(0);
    cl_program program = build(SOURCE, "-cl-std=CL2.0");
    node *nodes = allocate(NODES * sizeof(node));
    int *right = allocate(LISTS * sizeof(int));
    cl_kernel follow = kernel_of(program, "follow");
    cl_kernel build = kernel_of(program, "build");
    cl_kernel sum = kernel_of(program, "sum");
    host_builds(nodes);
    device_follows(follow, nodes, right);
    device_builds(build, nodes);
    scattered(sum, right);
    CHECK(clFinish(queue));
    clSVMFree(context, nodes);
    clSVMFree(context, right);
    CHECK(clReleaseKernel(follow));
    CHECK(clReleaseKernel(build));
    CHECK(clReleaseKernel(sum));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}
