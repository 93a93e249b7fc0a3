//! Bodies on their way: that of a request, which must be there in time, and that of an answer, for as long as it takes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::network::seats::Busy;

/// The body did not come to its end in time.
#[derive(Debug, thiserror::Error)]
#[error("it was not there within {} seconds", .0.as_secs_f32())]
struct Late(Duration);

/// The body of a request, which fails unless all of it is there in time, counted from when it is first read.
pub(super) struct Timely {
    body: Incoming,
    within: Duration,
    /// Runs once the body has been waited for.
    end: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    pub(super) fn new(body: Incoming, within: Duration) -> Self {
        Self { body, within, end: None }
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        // Asked first: one who sends a little all the time is late all the same.
        if let Some(end) = &mut this.end
            && end.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(Late(this.within).into())));
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        if this.end.is_none() {
            let within = this.within;
            let end = this.end.insert(Box::pin(sleep(within)));
            ready!(end.as_mut().poll(context));
            return Poll::Ready(Some(Err(Late(within).into())));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; its request is in work until all of it is taken.
pub(super) struct Held {
    body: Body,
    _busy: Busy,
}

impl Held {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
