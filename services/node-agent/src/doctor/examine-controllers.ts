import { type Finding, fault, fine, warning } from "@holdfast/shared/doctor/finding";
import { isHoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface NodeSeen {
  readonly lastHeartbeat: Date | undefined;
}

/** How a controller sees this node; rejects when it does not answer, NODE_NOT_FOUND when it never registered. */
export type AskController = (address: string) => Promise<NodeSeen>;

const longestHeartbeatMs = 60_000;
const skewMs = 5_000;

const ofAnswer = (address: string, { lastHeartbeat }: NodeSeen, now: number): Finding => {
  if (lastHeartbeat === undefined) return fine("controller", address, "answers");
  // By the controller's clock the heartbeat is a moment old at most, as long as the agent runs.
  const age = now - lastHeartbeat.getTime();
  if (age < -skewMs)
    return fault(
      "clock-skew",
      address,
      `its clock is ${Math.round(-age / 1_000)} s ahead of this host's, or more`,
      "set both clocks by NTP (timedatectl set-ntp true): times in answers, logs and traces cannot be compared",
    );
  if (age > longestHeartbeatMs)
    return warning(
      "heartbeat-old",
      address,
      `last heard of this node ${Math.round(age / 1_000)} s ago by this host's clock`,
      "start the agent; if it runs, this host's clock is ahead: set both by NTP (timedatectl set-ntp true)",
    );
  return fine("controller", address, "answers, and hears this node");
};

export const examineControllers = async (
  addresses: readonly string[],
  ask: AskController,
  now: number,
): Promise<readonly Finding[]> =>
  await Promise.all(
    addresses.map(async (address) => {
      try {
        return ofAnswer(address, await ask(address), now);
      } catch (error) {
        if (isHoldfastError(error) && error.reason === "NODE_NOT_FOUND")
          return fine("controller", address, "answers; this node has not registered yet");
        const why = error instanceof Error ? error.message : String(error);
        return fault(
          "controller-unreachable",
          address,
          `does not answer: ${why}`,
          "start the controller, or correct HOLDFAST_CONTROLLERS; a controller beyond this host listens on its own address only if HOLDFAST_LISTEN says so",
        );
      }
    }),
  );
