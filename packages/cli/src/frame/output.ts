import type { Io } from "./io.ts";
import type { MessageJson } from "./message-json.ts";
import type { Settings } from "./settings.ts";

/** A generated message with its name in the API, so that it can be shown as JSON. */
export interface Shown<Message> {
  readonly type: string;
  readonly codec: { encode(message: Message): { finish(): Uint8Array } };
  readonly message: Message;
}

export const shown = <Message>(
  type: string,
  codec: { encode(message: Message): { finish(): Uint8Array } },
  message: Message,
): Shown<Message> => ({ type, codec, message });

export interface Output {
  readonly json: boolean;
  /** One answer: proto3 JSON, or the same as YAML, for programs, `people` for people. */
  answer<Message>(answer: Shown<Message>, people: () => string): void;
  /** One line of a stream: a JSON document a line. */
  line<Message>(answer: Shown<Message>, people: () => string): void;
  /** For people only, on standard error: what a program need not read. */
  note(text: string): void;
  bold(text: string): string;
  warn(text: string): string;
  good(text: string): string;
}

/** How a run writes documents. */
export interface Documents {
  readonly messages: MessageJson;
  /** One of several, as a line where the form allows it. */
  write(value: unknown, one: boolean): string;
}

/** `documents`: of a run whose answers are for programs. */
export const createOutput = (io: Io, settings: Settings, documents: Documents | undefined): Output => {
  const paint = (code: number, text: string): string => (settings.colour ? `\u001b[${code}m${text}\u001b[0m` : text);
  const told = <Message>({ type, codec, message }: Shown<Message>, one: boolean, people: () => string): string =>
    documents === undefined
      ? people()
      : documents.write(documents.messages.toJson(type, codec.encode(message).finish()), one);
  return {
    json: settings.json,
    answer: (answer, people) => io.stdout.write(told(answer, true, people)),
    line: (answer, people) => io.stdout.write(told(answer, false, people)),
    note(text) {
      if (!settings.json) io.stderr.write(`${text}\n`);
    },
    bold: (text) => paint(1, text),
    warn: (text) => paint(33, text),
    good: (text) => paint(32, text),
  };
};
