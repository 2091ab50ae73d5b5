/* The table that the loader calls through. */
#include "stub.h"

__attribute__((constructor)) static void fill(void)
{
    stub_objects(&stub_dispatch);
    stub_memory(&stub_dispatch);
    stub_programs(&stub_dispatch);
    stub_commands(&stub_dispatch);
    stub_events(&stub_dispatch);
}
