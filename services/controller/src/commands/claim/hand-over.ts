import { useOf } from "@holdfast/model/volume-use";
import { holds } from "../../domain/claim/claim-machine.ts";
import { queueOf } from "../../domain/claim/grant.ts";
import { limits } from "../../domain/limits.ts";
import type { CommandDeps } from "../command-deps.ts";
import { claimConflict, claimNotFound, holderQueued } from "../errors.ts";
import type { Commands } from "../model.ts";
import { volumesOfWorkload } from "./claim-views.ts";
import { newTicket, placeOrder, traceOf } from "./create-claims.ts";
import type { WantedClaim } from "./decide-claims.ts";
import { validateHandOver } from "./validate-claims.ts";

/**
 * Reserves a workload's volumes for its successor: queued before all others, granted as soon as the holder is gone. Who only waits for a
 * volume has nothing to hand over: its successor would stand before it, and before those who asked earlier.
 */
export const handOverCommand =
  (deps: CommandDeps): Commands["handOver"] =>
  async (input, caller) => {
    const { records, clock, ids } = deps;
    validateHandOver(input);
    const now = clock.now();
    const wanted: WantedClaim[] = [];
    for (const { volume } of await volumesOfWorkload(records, input.namespace, input.fromWorkload)) {
      const meant = Object.values(volume.claims).filter(
        (c) => c.workload === input.fromWorkload && (input.aliases.length === 0 || input.aliases.includes(c.alias)),
      );
      const waits = meant.find((c) => c.state === "QUEUED");
      if (waits !== undefined) throw holderQueued(volume, waits);
      const held = meant.filter((c) => holds[c.state]);
      const reserved = queueOf(volume).find((c) => c.after !== undefined && c.workload !== input.toWorkload);
      if (held.length > 0 && reserved !== undefined)
        throw claimConflict(
          volume,
          `volume ${volume.id} is reserved for workload ${reserved.workload} already`,
          reserved,
        );
      wanted.push(
        ...held.map((c) => ({
          ref: { namespace: volume.namespace, id: volume.id },
          alias: c.alias,
          capability: useOf(c),
          readOnly: c.readOnly,
          uid: ids.uuid(),
        })),
      );
    }
    const missing = input.aliases.find((alias) => !wanted.some((w) => w.alias === alias));
    if (wanted.length === 0 || missing !== undefined)
      throw claimNotFound({ namespace: input.namespace, id: "" }, input.fromWorkload, missing ?? "");
    return await placeOrder(
      deps,
      input.namespace,
      {
        workload: input.toWorkload,
        node: input.toNode,
        wanted,
        requestId: input.requestId,
        ticket: newTicket(deps, now),
        queue: true,
        queueDeadline: now + (input.deadlineMs ?? limits.defaultQueueMs),
        after: [input.fromWorkload],
        trace: traceOf(caller, now),
      },
      caller,
    );
  };
