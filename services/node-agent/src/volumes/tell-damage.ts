/** A damaged journal: nothing can be written down, so that no order is followed, and whoever sends one is told why and what helps. */
import type { VolumeRef } from "../domain/types.ts";
import type { Ledger } from "../ports.ts";
import { damagedHalt } from "./halts.ts";
import type { VolumeManager } from "./volume-manager.ts";

export function tellDamage(ledger: Pick<Ledger, "damage">, node: string, inner: VolumeManager): VolumeManager {
  const haltOf = (ref: VolumeRef) => (ledger.damage === undefined ? undefined : damagedHalt(ref, ledger.damage, node));
  return {
    ...inner,
    async publish(order, caller) {
      const halt = haltOf(order.ref);
      return halt === undefined ? await inner.publish(order, caller) : { kind: "uncertain", halt };
    },
    async release(order, caller) {
      const halt = haltOf(order.ref);
      return halt === undefined ? await inner.release(order, caller) : { kind: "pending", halt };
    },
    async expand(order, caller) {
      const halt = haltOf(order.ref);
      return halt === undefined ? await inner.expand(order, caller) : { kind: "uncertain", halt };
    },
  };
}
