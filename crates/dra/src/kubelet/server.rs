//! Serves kubelet's protocols over Unix sockets.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::gone;

use super::messages::{
    InfoRequest, PluginInfo, PrepareRequest, PrepareResponse, RegistrationStatus, RegistrationStatusResponse,
    UnprepareRequest, UnprepareResponse, path,
};

/// A plug-in of kubelet's.
pub trait Plugin: Send + Sync + 'static {
    /// What it is.
    fn info(&self) -> PluginInfo;
    /// Whether kubelet takes it.
    fn registered(&self, status: &RegistrationStatus);
    /// Makes claims ready; may take its time.
    fn prepare(&self, request: PrepareRequest) -> PrepareResponse;
    /// Gives back what they had; may take its time.
    fn unprepare(&self, request: UnprepareRequest) -> UnprepareResponse;
}

/// What a call comes to.
type Called<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

/// One call: the message of a request to that of its answer.
type Call<Q, A> = fn(&(dyn Plugin + 'static), Q) -> A;

/// A call as tonic wants it, made in a thread that may wait.
struct Unary<Q, A>(Arc<dyn Plugin>, Call<Q, A>);

impl<Q: Message + 'static, A: Message + 'static> UnaryService<Q> for Unary<Q, A> {
    type Response = A;
    type Future = Called<A>;

    fn call(&mut self, request: Request<Q>) -> Called<A> {
        let (plugin, call) = (self.0.clone(), self.1);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || call(&*plugin, request.into_inner())).await;
            done.map(Response::new).map_err(|error| Status::internal(error.to_string()))
        })
    }
}

async fn unary<Q: Message + Default + 'static, A: Message + Default + 'static>(
    plugin: Arc<dyn Plugin>,
    call: Call<Q, A>,
    request: hyper::Request<Incoming>,
) -> hyper::Response<Body> {
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Unary(plugin, call), request).await
}

/// Answers one request of kubelet's.
async fn answer(plugin: Arc<dyn Plugin>, request: hyper::Request<Incoming>) -> hyper::Response<Body> {
    match request.uri().path() {
        path::GET_INFO => unary::<InfoRequest, _>(plugin, |plugin, _| plugin.info(), request).await,
        path::NOTIFY => {
            let call: Call<RegistrationStatus, _> = |plugin, status| {
                plugin.registered(&status);
                RegistrationStatusResponse {}
            };
            unary(plugin, call, request).await
        }
        path::PREPARE => {
            unary::<PrepareRequest, PrepareResponse>(plugin, |plugin, asked| plugin.prepare(asked), request).await
        }
        path::UNPREPARE => {
            unary::<UnprepareRequest, UnprepareResponse>(plugin, |plugin, asked| plugin.unprepare(asked), request).await
        }
        other => Status::unimplemented(format!("this plug-in has no {other}")).into_http(),
    }
}

/// Listens at a socket instead of whoever did before.
///
/// # Errors
/// The file system's.
pub fn listen(socket: &Path) -> io::Result<UnixListener> {
    gone(std::fs::remove_file(socket))?;
    UnixListener::bind(socket)
}

/// Serves a plug-in to whoever connects; ends with the task.
///
/// Of tonic's own server only the reading and writing of messages is used: the rest of it would bring a web framework.
pub async fn serve(listener: UnixListener, plugin: Arc<dyn Plugin>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let plugin = plugin.clone();
        tokio::spawn(async move {
            let service = Service(plugin);
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!("a connection of kubelet's has ended: {error}");
            }
        });
    }
}

/// A plug-in, as hyper calls it.
struct Service(Arc<dyn Plugin>);

impl hyper::service::Service<hyper::Request<Incoming>> for Service {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move { Ok(answer(plugin, request).await) })
    }
}
