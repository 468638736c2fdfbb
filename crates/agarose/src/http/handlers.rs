//! Drivers that serve methods of `host`: one WebSocket each, JSON both ways.

use agarose_engine::host::handlers::{FromDriver, ToDriver};
use axum::{
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    response::Response,
};

use super::Served;

/// The longest message of a driver, in bytes: as much as a cell may send.
const MESSAGE_LIMIT: usize = 16 << 20;

pub(super) async fn serve(State(served): State<Served>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.max_message_size(MESSAGE_LIMIT).on_upgrade(move |socket| converse(served, socket))
}

async fn converse(served: Served, mut socket: WebSocket) {
    let mut driver = served.engine.connect_driver();
    loop {
        tokio::select! {
            told = driver.inbox.recv() => {
                let Some(told) = told else { break };
                if say(&mut socket, &told).await.is_err() {
                    break;
                }
            }
            said = socket.recv() => match said {
                Some(Ok(Message::Text(text))) => match serde_json::from_str::<FromDriver>(&text) {
                    Ok(said) => served.engine.hear_driver(&driver, said),
                    Err(error) => {
                        let refused = ToDriver::Refused { message: error.to_string() };
                        if say(&mut socket, &refused).await.is_err() {
                            break;
                        }
                    }
                },
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
        }
    }
    served.engine.disconnect_driver(&driver);
}

async fn say(socket: &mut WebSocket, told: &ToDriver) -> Result<(), axum::Error> {
    let text = serde_json::to_string(told).map_err(axum::Error::new)?;
    socket.send(Message::Text(text.into())).await
}
