/* Programs that tell the test where they are, and wait for its word, so that it can look at what has happened so far. */
#ifndef STAGES_H
#define STAGES_H
#include "common.h"

static inline void stage(const char *name)
{
    char line[64];
    printf("%s\n", name);
    fflush(stdout);
    REQUIRE(fgets(line, sizeof line, stdin) != NULL);
}

/* What the test measures begins; `what` it is called. */
static inline void begin_stage(const char *what)
{
    char line[128];
    snprintf(line, sizeof line, "begin %s", what);
    stage(line);
}

/* It ends; all that it does has been done. */
static inline void end_stage(void)
{
    stage("end");
}
#endif
