/** Asks the holders of plugins' sockets to let go of a call's subject: the agent of a node, or this process itself. */
import { gateSubject } from "@holdfast/csi/gate-subject";
import type { PluginDirectory } from "@holdfast/csi/plugin-directory";
import { nodeOfName } from "../domain/plugin/instance-name.ts";
import type { ControllerPlugins } from "../ports.ts";
import { gateAnswer, type RelayLines } from "./relay-transport.ts";

/** An open call is waited for so long: the answer that it has ended comes at once then. */
const quiesceMs = 10_000;

const things = { snapshot: "snapshot", group: "group snapshot" } as const;

/** What the record is of, in the words of gates. */
export const thingOf = ({ kind }: { readonly plugin: string; readonly kind?: keyof typeof things }) =>
  kind === undefined ? "volume" : things[kind];

export const createGates = (
  directory: Pick<PluginDirectory, "quiesce">,
  lines: Pick<RelayLines, "quiesce">,
): Pick<ControllerPlugins, "quiesce"> => ({
  async quiesce(record, { op, via, gate = "" }, order, signal) {
    const { plugin, name, externalId } = record;
    const subject = gateSubject(thingOf(record), op === "create" ? { name } : { id: externalId });
    const node = nodeOfName(via);
    return node === undefined
      ? gateAnswer(await directory.quiesce(plugin, subject, order, quiesceMs, signal, via))
      : await lines.quiesce(node, plugin, { gate, subject, order, waitMs: quiesceMs }, signal);
  },
});
