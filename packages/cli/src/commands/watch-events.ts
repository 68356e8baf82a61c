import {
  type Event,
  type EventFilter,
  EventSeverity,
  WatchEventsResponse,
} from "@holdfast/shared/gen/holdfast/v1/event";
import { wasGivenUp } from "../frame/await-settled.ts";
import type { Command, Input, OptionSpec } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { shown } from "../frame/output.ts";
import { enumWords } from "../words/enum-words.ts";
import { moment } from "../words/moment.ts";
import { millisOf, optionWords } from "./option-words.ts";

const severities = enumWords<EventSeverity>(EventSeverity, "EVENT_SEVERITY_");

const eventText = (event: Event): string =>
  `${moment(event.at)}  ${severities.of(event.severity)}  ${event.reason}  ${event.message}\n`;

export const sinceOption: OptionSpec = { flags: "--since <token>", help: "go on after this event" };
export const forOption: OptionSpec = { flags: "--for <duration>", help: "end by itself after this time" };

/** A line for each event that is wanted, until Ctrl-C or the time that was given. */
export const followEvents = async (
  { clients, io, out }: Context,
  input: Input,
  filter: EventFilter,
  wanted: (event: Event) => boolean = () => true,
): Promise<void> => {
  const limit = input.text("for");
  const signal =
    limit === undefined ? io.signal : AbortSignal.any([io.signal, AbortSignal.timeout(millisOf("--for", limit))]);
  try {
    const request = { filter, resumeToken: input.text("since") ?? "" };
    for await (const message of clients.events.watchEvents(request, { signal })) {
      const { event } = message;
      if (event !== undefined && wanted(event))
        out.line(shown("holdfast.v1.WatchEventsResponse", WatchEventsResponse, message), () => eventText(event));
    }
  } catch (error) {
    if (!wasGivenUp(error, signal)) throw error;
  }
};

export const watchEvents: Command = {
  path: ["events"],
  summary: "show what happens, as it happens",
  description:
    "From now on, or from a token of an earlier line (--json shows it). Ends with Ctrl-C, or after the time given with --for.",
  options: [
    { flags: "-f, --follow", help: "go on until Ctrl-C (this is what it does; for hands that are used to it)" },
    sinceOption,
    forOption,
    { flags: "--volume <volume>", help: "only about this volume", completes: "volume" },
    { flags: "--workload <workload>", help: "only about this workload", completes: "workload" },
    { flags: "--node <node>", help: "only about this node", completes: "node" },
    { flags: "--plugin <plugin>", help: "only about this plugin", completes: "plugin" },
    { flags: "--severity <severity>", help: "this one and those above it", completes: severities.words },
    { flags: "-A, --all-namespaces", help: "of every namespace, and what belongs to none" },
  ],
  examples: [{ line: "holdfast events -f --severity warning -A", says: "what somebody should look at, everywhere" }],
  async run(context, input) {
    const severity = input.text("severity");
    const filter = {
      namespace: input.flag("all-namespaces") ? "" : context.settings.namespace,
      volume: input.text("volume") ?? "",
      workload: input.text("workload") ?? "",
      node: input.text("node") ?? "",
      plugin: input.text("plugin") ?? "",
      reasons: [],
      minimumSeverity: severity === undefined ? 0 : (optionWords("--severity", severities, [severity])[0] ?? 0),
    };
    await followEvents(context, input, filter);
  },
};
