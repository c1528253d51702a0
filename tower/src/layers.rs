//! The two layers, and their services.

use crate::body::ExecutionBody;
use crate::future::ResponseFuture;
use crate::refusal::{Refusal, with_causes};
use cabrank::execution::{ExecutionError, Executor, Reloader};
use http::{Request, Response};
use http_body::Body;
use std::fmt::Display;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Defines a layer and its service; they differ in what begins an execution.
macro_rules! layer {
    (
        $(#[$layer_doc:meta])* $layer:ident,
        $(#[$service_doc:meta])* $service:ident,
        $field:ident: $begins:ty
    ) => {
        $(#[$layer_doc])*
        #[derive(Clone, Debug)]
        pub struct $layer {
            $field: $begins,
            refusal: Refusal,
        }

        impl $layer {
            #[doc = concat!("Returns a layer over this ", stringify!($field), ".")]
            pub fn new($field: $begins) -> Self {
                $layer { $field, refusal: Refusal::default() }
            }
            /// Answers a request whose execution cannot begin with the text of the failure, for development.
            ///
            /// The text may contain paths and the dump of the interlock. Default: the status alone.
            pub fn show_errors(mut self) -> Self {
                self.refusal = Refusal::with_text(with_causes);
                self
            }
            /// Sets the answer to a request whose execution cannot begin.
            ///
            /// Default: the status alone, 503 after a wait that failed, and otherwise 500.
            pub fn on_error(
                mut self,
                answer: impl Fn(&ExecutionError) -> Response<String> + Send + Sync + 'static,
            ) -> Self {
                self.refusal = Refusal::new(answer);
                self
            }
        }

        impl<S> Layer<S> for $layer {
            type Service = $service<S>;
            fn layer(&self, inner: S) -> Self::Service {
                $service { inner, layer: self.clone() }
            }
        }

        $(#[$service_doc])*
        #[derive(Clone, Debug)]
        pub struct $service<S> {
            inner: S,
            layer: $layer,
        }

        impl<S, Q, B> Service<Request<Q>> for $service<S>
        where
            S: Service<Request<Q>, Response = Response<B>, Error: Display> + Clone,
            B: Body<Data: From<String>>,
        {
            type Response = Response<ExecutionBody<B>>;
            type Error = S::Error;
            type Future = ResponseFuture<S, Q>;

            fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
                self.inner.poll_ready(cx)
            }
            fn call(&mut self, request: Request<Q>) -> Self::Future {
                // The future calls the service that is ready; a clone takes its place.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                let begins = self.layer.$field.clone();
                let execution = Box::pin(async move { begins.run_async().await });
                ResponseFuture::new(execution, inner, request, self.layer.refusal.clone())
            }
        }
    };
}

layer! {
    /// Runs an executor's hooks around each request, from the call of the inner service to the end of the response's
    /// body.
    ///
    /// ```
    /// use cabrank::execution::Executor;
    /// use cabrank_tower::ExecutorLayer;
    /// use http::{Request, Response};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let executor = Executor::builder()
    ///     .to_run(|| Ok(println!("clear the query cache")))
    ///     .to_complete(|| Ok(println!("give the connection back")))
    ///     .build();
    /// let service = ServiceBuilder::new()
    ///     .layer(ExecutorLayer::new(executor))
    ///     .service(service_fn(async |_: Request<String>| {
    ///         Ok::<_, std::convert::Infallible>(Response::new("hello".to_owned()))
    ///     }));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// drop(response); // the connection is given back
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ExecutorLayer,
    /// The service of an [`ExecutorLayer`].
    ExecutorService,
    executor: Executor
}

layer! {
    /// Reloads changed code before a request, and runs the executor's hooks as [`ExecutorLayer`] does.
    ///
    /// It belongs outside every other layer that uses loaded code. It includes the executor, so an [`ExecutorLayer`] of
    /// the same executor is not needed. A reload waits for the executions of all other requests; new requests wait for
    /// it.
    ///
    /// With [`ReloaderBuilder::always`](cabrank::execution::ReloaderBuilder::always), the code is unloaded before the
    /// next request instead of after this one, because the end of a response waits for no other.
    ReloaderLayer,
    /// The service of a [`ReloaderLayer`].
    ReloaderService,
    reloader: Reloader
}
