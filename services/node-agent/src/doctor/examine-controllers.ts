import { type Finding, fault, fine } from "@holdfast/shared/doctor/finding";
import { tlsTrouble } from "@holdfast/shared/doctor/tls-trouble";

export interface ControllerSeen {
  /** The controller's clock. */
  readonly now: Date | undefined;
  /** This node is registered there. */
  readonly known: boolean;
}

/** How a controller sees this node; rejects when it does not answer. */
export type AskController = (address: string) => Promise<ControllerSeen>;

const skewMs = 5_000;

const ofAnswer = (address: string, { now: theirs, known }: ControllerSeen, now: number): Finding => {
  const skew = theirs === undefined ? 0 : theirs.getTime() - now;
  if (Math.abs(skew) > skewMs)
    return fault(
      "clock-skew",
      address,
      `its clock is ${Math.round(Math.abs(skew) / 1_000)} s ${skew > 0 ? "ahead of" : "behind"} this host's`,
      "set both clocks by NTP (timedatectl set-ntp true): times in answers, logs and traces cannot be compared",
    );
  return fine(
    "controller",
    address,
    known ? "answers, and knows this node" : "answers; this node has not registered yet",
  );
};

export const examineControllers = async (
  addresses: readonly string[],
  ask: AskController,
  now: () => number,
): Promise<readonly Finding[]> =>
  await Promise.all(
    addresses.map(async (address) => {
      try {
        return ofAnswer(address, await ask(address), now());
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return (
          tlsTrouble(address, why) ??
          fault(
            "controller-unreachable",
            address,
            `does not answer: ${why}`,
            "start the controller, or correct HOLDFAST_CONTROLLERS: the controller listens for agents at its HOLDFAST_AGENT_LISTEN (127.0.0.1:7602 unless set), not at HOLDFAST_LISTEN; with TLS it ends the connection of an agent whose certificate does not verify, and its log says why",
          )
        );
      }
    }),
  );
