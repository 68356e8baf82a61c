import type { Awaited } from "./await-settled.ts";
import type { Clients } from "./clients.ts";
import type { Io } from "./io.ts";
import type { MessageJson } from "./message-json.ts";
import type { Output } from "./output.ts";
import type { Settings } from "./settings.ts";

/** What every command is given. */
export interface Context {
  readonly io: Io;
  readonly settings: Settings;
  readonly clients: Clients;
  /** Loaded when it is asked for. */
  messages(): Promise<MessageJson>;
  readonly out: Output;
  /** Waits with a live line; Ctrl-C ends the wait and not the work. */
  wait<State, Result>(awaited: Awaited<State, Result>): Promise<Result>;
}
