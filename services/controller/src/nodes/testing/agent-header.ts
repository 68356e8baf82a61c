import type { AgentHeader } from "../convert.ts";

/** What an agent says of itself at its first registration; each test says what is different. */
export const agentHeader = (change: Partial<AgentHeader> = {}): AgentHeader => ({
  name: "n1",
  machineId: "machine-1",
  bootId: "boot-1",
  instance: "i1",
  journalUid: "journal-1",
  lockId: "8:1",
  hostIdentity: "",
  version: "0.1.0",
  verificationScope: "host",
  nodeEpoch: 0,
  clusterUid: "",
  fingerprintRevision: 1,
  ...change,
});
