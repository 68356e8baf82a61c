/** A process that is stopped for a while: whoever speaks to it is not told, and what it was about to do it does afterwards. */
export interface Frozen {
  thaw(): void;
}

interface Signalled {
  readonly pid: number;
}

export const freeze = ({ pid }: Signalled): Frozen => {
  process.kill(pid, "SIGSTOP");
  let stopped = true;
  return {
    thaw: () => {
      if (stopped) process.kill(pid, "SIGCONT");
      stopped = false;
    },
  };
};
