import { connect } from "node:net";
import { decode, encode } from "./backend/json.ts";
import { type BackendOperation, backendOperations, type OperationReply } from "./backend-operations.ts";
import { onLine } from "./lines.ts";
import type { AsyncControl, AsyncPort } from "./role/async-port.ts";

export type BackendClient = AsyncPort &
  AsyncControl & {
    /** Ends the connection; for a role process that means its death. */
    disconnect(): void;
    /** Resolves when the backend is gone. */
    readonly gone: Promise<void>;
  };

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Speaks to a backend process. A lost connection rejects all that waits; there is no reconnecting. */
export const connectBackend = async (path: string): Promise<BackendClient> => {
  const socket = connect(path);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", (error) => reject(new Error(`no backend at ${path}: ${error.message}`)));
  });
  const waiting = new Map<number, Waiting>();
  let nextId = 0;
  let lost: Error | undefined;

  onLine(socket, (line) => {
    const { id, result, error } = decode(line) as OperationReply;
    const one = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) one?.resolve(result);
    else one?.reject(new Error(error));
  });
  const gone = new Promise<void>((resolve) => {
    socket.on("close", () => {
      lost = new Error(`the backend at ${path} is gone`);
      for (const one of waiting.values()) one.reject(lost);
      waiting.clear();
      resolve();
    });
  });
  socket.on("error", () => socket.destroy());

  const ask = (operation: BackendOperation, args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (lost !== undefined) return reject(lost);
      nextId += 1;
      waiting.set(nextId, { resolve, reject });
      socket.write(`${encode({ id: nextId, operation, args })}\n`);
    });

  // Built from the list of operations, whose types are the backend's own.
  const operations = Object.fromEntries(
    backendOperations.map((operation) => [operation, (...args: readonly unknown[]) => ask(operation, args)]),
  ) as unknown as AsyncPort & AsyncControl;
  return { ...operations, disconnect: () => socket.destroy(), gone };
};
