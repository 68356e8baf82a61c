import type { TransferBody } from "../../gen/holdfast/internal/v1/controller_link.ts";
import type { MessagePieces } from "./message-pieces.ts";

/** How bodies go that do not go over Serve: made by the agent, which opens a Transfer for each, and by the controller, which meets it. */
export interface BodyTransfers {
  /** Ends when all of it has left. What `messages` throws is passed on as the body's end, and is no failure of this. */
  send(body: TransferBody, seq: number, messages: AsyncIterable<MessagePieces>, signal: AbortSignal): Promise<void>;
  /** The messages as they come. Throws a ToldStatus for what the other side's messages ended with. */
  receive(body: TransferBody, seq: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
}
