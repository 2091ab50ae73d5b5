# What the prolog, the epilog and the task prolog of Slurm share. They are installed into one folder.
#
# /etc/ropeway/slurm.conf, or the file ropeway.conf beside these scripts, says, as shell variables:
#
#   ROPEWAY_BROKER='ropeway://broker:7591/#...'   the ticket of a user of the broker; the file is root's, mode 600
#   ROPEWAY_WAIT=2m                               how long a job's start may wait for devices (default 60s)
#   WANT_h200='gpu, name~H200'                    what a type of gres is, where its name is not that of a type of devices

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH}
export PATH
here=$(dirname "$(readlink -f "$0")")
conf=/etc/ropeway/slurm.conf
if [ -r "$here/ropeway.conf" ]; then conf=$here/ropeway.conf; fi
ROPEWAY=ropeway
ROPEWAY_WAIT=60s
leases=/run/ropeway-slurm
if [ -r "$conf" ]; then . "$conf"; fi
export ROPEWAY_BROKER

# The file with the tickets of this job's lease on this node, which is the job's user's, and that with the lease's number.
tickets=$leases/${SLURM_CLUSTER_NAME:-cluster}-$SLURM_JOB_ID${SLURMD_NODENAME:+-$SLURMD_NODENAME}
number=$tickets.lease
