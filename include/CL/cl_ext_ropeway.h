/*
 * Copyright (c) 2026 The Ropeway developers
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

/*
 * Extensions of Ropeway, an OpenCL implementation whose devices are those of other machines. Each is described in
 * docs/extensions of its source, and in /usr/share/doc/ropeway/extensions where the package is installed.
 *
 * The functions are found by name: clGetExtensionFunctionAddressForPlatform(platform, "clConnectServerROPEWAY"), cast to
 * clConnectServerROPEWAY_fn. Nothing here needs to be linked.
 */
#ifndef CL_EXT_ROPEWAY_H_
#define CL_EXT_ROPEWAY_H_

#include <CL/cl.h>

#ifdef __cplusplus
extern "C" {
#endif

/***************************************************************
 * cl_ropeway_servers: servers that come and go
 ***************************************************************/
#define cl_ropeway_servers 1
#define CL_ROPEWAY_SERVERS_EXTENSION_NAME "cl_ropeway_servers"

/* A server: one session with one machine. The handle is valid as long as the process lives. */
typedef struct _cl_server_ropeway *cl_server_ropeway;

typedef cl_uint cl_server_info_ropeway;
typedef cl_uint cl_server_state_ropeway;
typedef cl_bitfield cl_server_events_ropeway;

/* cl_platform_info */
#define CL_PLATFORM_SERVER_ADDRESS_ROPEWAY 0x52570001 /* char[]: all servers' addresses, with commas between them */

/* cl_device_info */
#define CL_DEVICE_SERVER_ADDRESS_ROPEWAY 0x52570101        /* char[] */
#define CL_DEVICE_SERVER_PORT_ROPEWAY 0x52570102           /* cl_uint */
#define CL_DEVICE_SERVER_HOST_NAME_ROPEWAY 0x52570103      /* char[] */
#define CL_DEVICE_SERVER_BYTES_SENT_ROPEWAY 0x52570104     /* cl_ulong */
#define CL_DEVICE_SERVER_BYTES_RECEIVED_ROPEWAY 0x52570105 /* cl_ulong */
#define CL_DEVICE_SERVER_ROPEWAY 0x52570106                /* cl_server_ropeway */

/* cl_server_info_ropeway */
#define CL_SERVER_ADDRESS_ROPEWAY 0x52570201        /* char[] */
#define CL_SERVER_PORT_ROPEWAY 0x52570202           /* cl_uint */
#define CL_SERVER_HOST_NAME_ROPEWAY 0x52570203      /* char[] */
#define CL_SERVER_STATE_ROPEWAY 0x52570204          /* cl_server_state_ropeway */
#define CL_SERVER_RELEASE_ROPEWAY 0x52570205        /* char[] */
#define CL_SERVER_BYTES_SENT_ROPEWAY 0x52570206     /* cl_ulong */
#define CL_SERVER_BYTES_RECEIVED_ROPEWAY 0x52570207 /* cl_ulong */
#define CL_SERVER_PLATFORMS_ROPEWAY 0x52570208      /* cl_platform_id[] */
#define CL_SERVER_DEVICES_ROPEWAY 0x52570209        /* cl_device_id[] */
#define CL_SERVER_TIME_LEFT_ROPEWAY 0x5257020A      /* cl_ulong: milliseconds; CL_ULONG_MAX: no notice */

/* cl_server_state_ropeway */
#define CL_SERVER_STATE_CONNECTED_ROPEWAY 1
#define CL_SERVER_STATE_LOST_ROPEWAY 2
#define CL_SERVER_STATE_DISCONNECTED_ROPEWAY 3

/* cl_server_events_ropeway */
#define CL_SERVER_EVENT_LOST_ROPEWAY (1 << 0)
#define CL_SERVER_EVENT_FOUND_ROPEWAY (1 << 1)
#define CL_SERVER_EVENT_NOTICE_ROPEWAY (1 << 2)

/* Error codes */
#define CL_INVALID_SERVER_ROPEWAY -52571
#define CL_SERVER_UNREACHABLE_ROPEWAY -52572
#define CL_SERVER_REFUSED_ROPEWAY -52573

typedef cl_server_ropeway(CL_API_CALL *clConnectServerROPEWAY_fn)(cl_platform_id platform, const char *url,
                                                                  cl_int *errcode_ret);

typedef cl_int(CL_API_CALL *clDisconnectServerROPEWAY_fn)(cl_server_ropeway server);

typedef cl_int(CL_API_CALL *clGetServersROPEWAY_fn)(cl_platform_id platform, cl_uint num_entries,
                                                    cl_server_ropeway *servers, cl_uint *num_servers);

typedef cl_int(CL_API_CALL *clGetServerInfoROPEWAY_fn)(cl_server_ropeway server, cl_server_info_ropeway param_name,
                                                       size_t param_value_size, void *param_value,
                                                       size_t *param_value_size_ret);

typedef cl_int(CL_API_CALL *clGetServerDevicesROPEWAY_fn)(cl_server_ropeway server, cl_device_type device_type,
                                                          cl_uint num_entries, cl_device_id *devices,
                                                          cl_uint *num_devices);

typedef void(CL_CALLBACK *cl_server_notify_ropeway)(cl_server_ropeway server, cl_server_events_ropeway event,
                                                    void *user_data);

typedef cl_int(CL_API_CALL *clSetServerCallbackROPEWAY_fn)(cl_platform_id platform, cl_server_events_ropeway events,
                                                           cl_server_notify_ropeway pfn_notify, void *user_data);

/* The same as dOpenCL's publications name it, without a platform. */
typedef cl_server_ropeway cl_server_WWU;
typedef cl_server_info_ropeway cl_server_info_WWU;

typedef cl_server_WWU(CL_API_CALL *clConnectServerWWU_fn)(const char *url, cl_int *errcode_ret);

typedef cl_int(CL_API_CALL *clDisconnectServerWWU_fn)(cl_server_WWU server);

typedef cl_int(CL_API_CALL *clGetServerInfoWWU_fn)(cl_server_WWU server, cl_server_info_WWU param_name,
                                                   size_t param_value_size, void *param_value,
                                                   size_t *param_value_size_ret);

#ifdef __cplusplus
}
#endif

/***************************************************************
 * cl_ropeway_collectives: collective operations on buffers
 ***************************************************************/
#include "cl_ropeway_collectives.h"

/***************************************************************
 * cl_ropeway_custom_devices: streams, codecs, functions
 ***************************************************************/
#include "cl_ropeway_custom_devices.h"

#endif /* CL_EXT_ROPEWAY_H_ */
