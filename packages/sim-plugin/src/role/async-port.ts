import type { Backend, BackendControl, BackendPort } from "../backend/backend.ts";

/** The backend as seen from elsewhere: every answer takes its time. */
type Distant<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<R> : never;
};

export type AsyncPort = Distant<BackendPort>;
export type AsyncControl = Distant<BackendControl>;

/** A backend in the same process, behind the same face as a distant one. */
export const localPort = (backend: Backend): AsyncPort => ({
  attach: async (instance) => backend.attach(instance),
  detach: async (instance) => backend.detach(instance),
  begin: async (call) => backend.begin(call),
  apply: async (ticket) => backend.apply(ticket),
  close: async (ticket, ending) => backend.close(ticket, ending),
  abandon: async (ticket) => backend.abandon(ticket),
});
