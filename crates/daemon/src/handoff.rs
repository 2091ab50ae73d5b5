//! interim
use ropeway_protocol::handshake::Hello;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
pub(crate) fn send(control: impl AsFd, link: impl AsFd, hello: &Hello) -> io::Result<()> {
    let body = postcard::to_stdvec(hello).map_err(io::Error::other)?;
    let len = (body.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut anc = SendAncillaryBuffer::new(&mut space);
    let fds = [link.as_fd()];
    anc.push(SendAncillaryMessage::ScmRights(&fds));
    let message = [&len[..], &body].concat();
    sendmsg(control, &[IoSlice::new(&message)], &mut anc, SendFlags::NOSIGNAL)?;
    Ok(())
}
