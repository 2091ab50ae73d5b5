/* As collectives.c, with ordinary calls everywhere. */
#define CL_ROPEWAY_COLLECTIVES_ORDINARY
#include "collectives.c"
