/** For the simulated plugins of a bench: as little time as they can take, and a note of what they took in this directory. */
export const pluginSettings = (times: string) => ({
  HOLDFAST_SIM_CALL_TIMES: times,
  HOLDFAST_SIM_NATIVE_MOUNTS: "1",
  NODE_OPTIONS: "--experimental-ffi",
});
