import { FenceNodeResponse, type Node, NodeState, type RemainingClaim } from "@holdfast/shared/gen/holdfast/v1/node";
import { CliFailure } from "../../frame/cli-failure.ts";
import type { Command, Input } from "../../frame/command.ts";
import type { Context } from "../../frame/context.ts";
import { exitCodes } from "../../frame/exit-code.ts";
import { shown } from "../../frame/output.ts";
import { consequenceText } from "../resource-words.ts";
import { noWaitOption } from "../wait-options.ts";
import { failIfAllBlocked } from "./all-blocked.ts";

const evidenceOf = (input: Input) => {
  const powerOffAttestation = input.text("powered-off");
  if (powerOffAttestation !== undefined && input.flag("detach-fences"))
    throw new CliFailure({
      exitCode: exitCodes.usage,
      reason: "INVALID_ARGUMENT",
      message: "--powered-off and --detach-fences exclude each other: give the evidence that there is",
    });
  return powerOffAttestation === undefined ? { detachFences: input.flag("detach-fences") } : { powerOffAttestation };
};

/** The epoch that the caller has seen; without one, that which the node has now. */
const epochOf = async ({ clients }: Context, name: string, text: string | undefined): Promise<bigint> => {
  if (text === undefined) return (await clients.nodes.getNode({ name })).node?.nodeEpoch ?? 0n;
  if (/^[1-9]\d{0,15}$/.test(text)) return BigInt(text);
  throw new CliFailure({
    exitCode: exitCodes.usage,
    reason: "INVALID_ARGUMENT",
    message: `--epoch ${text} is no epoch; holdfast node status ${name} shows it`,
  });
};

/** The fence has reached this claim, and a detach has failed since. A block from before the fence, such as a silent agent, does not count: the fence ends it. */
const isReached = ({ claimUid, state, lastError }: RemainingClaim, node: Node | undefined): boolean =>
  (claimUid === "" || state === "DETACHING") &&
  (lastError?.at?.getTime() ?? 0) >= (node?.stateSince?.getTime() ?? Number.POSITIVE_INFINITY);

/** Fencing is idempotent: each round holds the answer until the node has nothing more, or the round is over. What is blocked is seen between rounds alone. */
const awaitFenced = (
  context: Context,
  request: Parameters<Context["clients"]["nodes"]["fenceNode"]>[0] & { readonly name: string },
) =>
  context.wait({
    what: `node ${request.name} to have nothing more`,
    async *watch(signal) {
      while (!signal.aborted)
        yield await context.clients.nodes.fenceNode(
          { ...request, waitFor: { seconds: 2n, nanos: 0 } },
          { signal, deadlineMs: 30_000 },
        );
    },
    line: ({ node }) => `${request.name}: ${node?.stateMessage ?? ""}`,
    settled: (answer) => {
      if (answer.node?.state !== NodeState.NODE_STATE_FENCING) return answer;
      if (answer.remaining.every((one) => isReached(one, answer.node))) failIfAllBlocked(request.name, answer);
      return undefined;
    },
    look: `holdfast node status ${request.name}`,
    stop: "",
  });

export const fenceNode: Command = {
  path: ["node", "fence"],
  summary: "take the volumes of a node from it that is off, and end its claims",
  description:
    "For a node whose agent is silent, with the evidence that it cannot write any more. Without --dry-run it is done. If the machine still runs, two writers are possible.",
  args: [{ name: "node", help: "the node's name", completes: "node" }],
  options: [
    { flags: "--powered-off <text>", help: "what you have seen that shows that the machine is off; recorded" },
    { flags: "--detach-fences", help: "the profiles of its plugins say that a detach stops its writes" },
    { flags: "--reason <text>", help: "why; recorded", required: true },
    { flags: "--epoch <epoch>", help: "fence it only if it still has this epoch, from `node status`" },
    { flags: "--dry-run", help: "say what would happen, and do nothing" },
    noWaitOption,
  ],
  examples: [
    {
      line: 'holdfast node fence node-a --powered-off "power cut at the PDU, ticket 4711" --reason "host lost" --dry-run',
      says: "what would it mean?",
    },
    {
      line: 'holdfast node fence node-a --powered-off "power cut at the PDU, ticket 4711" --reason "host lost"',
      says: "do it, and wait until its volumes are free",
    },
  ],
  async run(context, input) {
    const name = input.arg("node");
    const request = {
      name,
      ...evidenceOf(input),
      reason: input.text("reason") ?? "",
      dryRun: input.flag("dry-run"),
      expectedNodeEpoch: await epochOf(context, name, input.text("epoch")),
    };
    const first = await context.clients.nodes.fenceNode(request);
    const waits = !request.dryRun && input.flag("wait") && first.node?.state === NodeState.NODE_STATE_FENCING;
    const last = waits ? await awaitFenced(context, request) : first;
    const answer = { ...last, consequence: first.consequence };
    context.out.answer(shown("holdfast.v1.FenceNodeResponse", FenceNodeResponse, answer), () =>
      [
        request.dryRun ? "nothing was done; it would mean:\n" : `node ${name}: ${last.node?.stateMessage ?? ""}\n`,
        consequenceText(answer.consequence),
      ].join(""),
    );
  },
};
