/**
 * One stream of Serve on a connection of its own, with nothing between: ten thousand of them fit into one process and leave the cores
 * to the controller that is measured.
 */
import { connect } from "node:http2";
import {
  FromAgent,
  ToAgent,
  TransferBody,
  TransferChunk,
} from "@holdfast/shared/gen/holdfast/internal/v1/controller_link";
import { createFrameReader, frameOf } from "@holdfast/shared/grpc/link/message-frames";

type Frame = Parameters<typeof FromAgent.fromPartial>[0];

export interface RawStream {
  send(frame: Frame): void;
  /** The answer to the order of that number, by Transfer. */
  transfer(seq: bigint, messages: readonly Uint8Array[]): void;
  close(): void;
}

/** What the hello of a node calls its stream. */
export const streamOf = (node: string): string => `stream-${node}`;

const maxFrameBytes = 256 * 1024;

export const openRawStream = (
  address: string,
  node: string,
  onFrame: (frame: ToAgent, stream: RawStream) => void,
  onEnd: (why: string) => void,
): RawStream => {
  const session = connect(`http://${address}`);
  const frames = createFrameReader(maxFrameBytes);
  const request = (method: string) =>
    session.request({
      ":method": "POST",
      ":path": `/holdfast.internal.v1.ControllerLinkService/${method}`,
      "content-type": "application/grpc",
      te: "trailers",
      "x-holdfast-identity": `node/${node}`,
    });
  const call = request("Serve");
  let ended = false;
  const end = (why: string): void => {
    if (ended) return;
    ended = true;
    session.destroy();
    onEnd(why);
  };
  const stream: RawStream = {
    send: (frame) => void call.write(frameOf(FromAgent.encode(FromAgent.fromPartial(frame)).finish())),
    transfer(seq, messages) {
      const transfer = request("Transfer");
      const write = (chunk: Parameters<typeof TransferChunk.fromPartial>[0]): void =>
        void transfer.write(frameOf(TransferChunk.encode(TransferChunk.fromPartial(chunk)).finish()));
      write({ open: { node, stream: streamOf(node), body: TransferBody.TRANSFER_BODY_ANSWER, seq } });
      for (const data of messages) write({ data, endsMessage: true, messageBytes: data.length });
      write({ complete: true });
      transfer.end();
      transfer.on("error", () => undefined);
      // Figures of a fleet whose inventories nobody could read would be those of a controller that asks again and again.
      transfer.on("trailers", ({ "grpc-status": status, "grpc-message": why }) => {
        if (Number(status) !== 0) end(`a transfer was refused: ${status} ${why}`);
      });
      transfer.resume();
    },
    close: () => end("closed"),
  };
  call.on("data", (chunk: Buffer) => {
    for (const message of frames.push(chunk)) onFrame(ToAgent.decode(message), stream);
  });
  call.on("error", (error: Error) => end(error.message));
  call.on("close", () => end("the stream ended"));
  session.on("error", (error: Error) => end(error.message));
  session.on("close", () => end("the connection ended"));
  return stream;
};
