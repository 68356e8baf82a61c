import { open } from "node:fs/promises";
import { errnoOf, messageOf } from "./host-failure.ts";

const control = "/dev/loop-control";

/**
 * Why no loop device can be made here, for people; undefined when they can. Not by the user id: root of a user namespace or of a
 * container has none either.
 */
export async function whyNoLoops(device = control): Promise<string | undefined> {
  try {
    await (await open(device, "r+")).close();
    return undefined;
  } catch (error) {
    if (errnoOf(error) === "ENOENT")
      return `there is no ${device}: modprobe loop, or give the container the devices of its host`;
    return `${device} cannot be opened (${messageOf(error)}): loop devices need root of the host`;
  }
}
