#!/bin/sh
# Makes what two cameras see, as H.264: something moves through a still picture, at other times before each. Each frame comes out of a decoder at
# once (no B-frames). Needs ffmpeg with libx264:
#
# scenes.sh FIRST.h264 SECOND.h264 [FRAMES [WIDTHxHEIGHT]]
set -eu
frames=${3:-300}
size=${4:-1280x720}

# OUTPUT, where its left edge is in frame n, what moves
scene() {
    ffmpeg -nostdin -loglevel error -y -f lavfi -i "smptehdbars=size=$size:rate=30" -f lavfi -i "$3" \
        -filter_complex "[0][1]overlay=x='$2':y=H/2:shortest=1" -frames:v "$frames" -pix_fmt yuv420p \
        -c:v libx264 -preset veryfast -tune zerolatency -crf 26 -g 60 -threads 2 -f h264 "$1"
}

scene "$1" "-w+mod(n*11\\,W*2)" "testsrc2=size=160x240:rate=30"
scene "$2" "W-mod(n*8\\,W*2)" "testsrc2=size=120x120:rate=30"
