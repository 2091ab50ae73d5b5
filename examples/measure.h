/* What a program costs the machine that it runs on: processor time, bytes on its links, energy where the kernel shows it. */
#ifndef MEASURE_H
#define MEASURE_H
#include "common.h"
#include <dirent.h>
#include <sys/resource.h>

struct cost {
    double at;          /* seconds */
    double processor;   /* seconds, of all threads */
    double in, out;     /* bytes on all links but loopback */
    double joules;      /* of all packages; less than 0 where the kernel does not show it */
};

static inline double number_in(const char *folder, const char *name, const char *file)
{
    char path[512];
    double value = -1;
    snprintf(path, sizeof path, "%s/%.200s/%s", folder, name, file);
    FILE *text = fopen(path, "r");
    if (text == NULL || fscanf(text, "%lf", &value) != 1)
        value = -1;
    if (text != NULL)
        fclose(text);
    return value;
}

static inline struct cost cost_now(void)
{
    struct cost cost = {.at = seconds(), .joules = -1};
    struct rusage used;
    REQUIRE(getrusage(RUSAGE_SELF, &used) == 0);
    cost.processor = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    struct dirent *entry;
    DIR *links = opendir("/sys/class/net"), *zones = opendir("/sys/class/powercap");
    while (links != NULL && (entry = readdir(links)) != NULL)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0) {
            double in = number_in("/sys/class/net", entry->d_name, "statistics/rx_bytes");
            double out = number_in("/sys/class/net", entry->d_name, "statistics/tx_bytes");
            cost.in += in > 0 ? in : 0;
            cost.out += out > 0 ? out : 0;
        }
    /* intel-rapl:0 is a package, intel-rapl:0:1 a part of it. */
    while (zones != NULL && (entry = readdir(zones)) != NULL) {
        char *colon = strchr(entry->d_name, ':');
        double energy = colon != NULL && strchr(colon + 1, ':') == NULL ? number_in("/sys/class/powercap", entry->d_name, "energy_uj") : -1;
        if (energy >= 0)
            cost.joules = (cost.joules < 0 ? 0 : cost.joules) + energy * 1e-6;
    }
    if (links != NULL)
        closedir(links);
    if (zones != NULL)
        closedir(zones);
    return cost;
}

/* Says on standard error what each of so many frames has cost since then; as JSON in a file, if one is named. */
static inline void cost_said(const char *what, struct cost since, int frames, double latency, const char *file)
{
    struct cost now = cost_now();
    double took = now.at - since.at, processor = (now.processor - since.processor) / frames * 1e3;
    double in = (now.in - since.in) / frames, out = (now.out - since.out) / frames;
    double millijoules = now.joules < 0 ? -1 : (now.joules - since.joules) / frames * 1e3;
    fprintf(stderr, "%s: %d frames in %.2f s, %.1f frames/s; of each frame %.2f ms of the client's processor, %.0f bytes in and %.0f out\n",
            what, frames, took, frames / took, processor, in, out);
    if (millijoules < 0)
        fprintf(stderr, "no energy counters here: processor time and bytes stand in for it\n");
    else
        fprintf(stderr, "%.1f mJ of each frame, by all packages of the machine\n", millijoules);
    FILE *json = file == NULL ? NULL : fopen(file, "w");
    if (json != NULL) {
        fprintf(json, "{\"what\": \"%s\", \"frames\": %d, \"seconds\": %.6f, \"processor_ms\": %.4f, \"bytes_in\": %.1f, \"bytes_out\": %.1f, ",
                what, frames, took, processor, in, out);
        fprintf(json, "\"latency_ms\": %.3f, \"millijoules\": %.3f}\n", latency * 1e3, millijoules);
        REQUIRE(fclose(json) == 0);
    }
    REQUIRE(file == NULL || json != NULL);
}
#endif
