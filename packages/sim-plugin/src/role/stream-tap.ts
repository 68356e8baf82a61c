import { Metadata, ServerInterceptingCall, type ServerInterceptor, ServerListenerBuilder } from "@grpc/grpc-js";

/** The header that ties a handler to its HTTP/2 stream; it never leaves the process. */
export const callHeader = "x-sim-call";
export const deadlineHeader = "x-sim-deadline-ms";

export interface StreamTap {
  readonly interceptors: ServerInterceptor[];
  /** Cuts the connection that the call came by, as a plugin's death would. */
  cut(call: string): void;
  /** Cuts every connection that has a call in flight. */
  cutAll(): void;
}

interface Session {
  destroy(): void;
}

/** grpc-js keeps the stream of a call to itself and offers no way to drop a connection, so the tap reaches for it. */
const sessionOf = (call: unknown): Session | undefined => {
  const stream: unknown = Reflect.get(call as object, "stream");
  const session: unknown = typeof stream === "object" && stream !== null ? Reflect.get(stream, "session") : undefined;
  return typeof session === "object" && session !== null && "destroy" in session ? (session as Session) : undefined;
};

export const noTap: StreamTap = {
  interceptors: [],
  cut: (id) => {
    throw new Error(`the connection of call ${id} cannot be cut: nobody keeps it`);
  },
  cutAll: () => undefined,
};

export const createStreamTap = (now: () => number): StreamTap => {
  const sessions = new Map<string, Session>();
  let count = 0;

  const interceptor: ServerInterceptor = (_, call) => {
    count += 1;
    const id = String(count);
    const session = sessionOf(call);
    if (session !== undefined) sessions.set(id, session);
    const forget = (): void => {
      sessions.delete(id);
    };
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        const marked = metadata instanceof Metadata ? metadata : new Metadata();
        marked.set(callHeader, id);
        const deadline = call.getDeadline();
        const at = deadline instanceof Date ? deadline.getTime() : deadline;
        if (Number.isFinite(at)) marked.set(deadlineHeader, String(Math.max(0, Math.round(at - now()))));
        next(marked);
      })
      .withOnCancel(forget)
      .build();
    return new ServerInterceptingCall(call, {
      start: (next) => next(listener),
      sendStatus: (status, next) => {
        forget();
        next(status);
      },
    });
  };

  return {
    interceptors: [interceptor],
    cut: (id) => {
      const session = sessions.get(id);
      if (session === undefined) throw new Error(`grpc-js no longer shows the connection of call ${id}`);
      session.destroy();
    },
    cutAll: () => {
      for (const session of new Set(sessions.values())) session.destroy();
    },
  };
};
