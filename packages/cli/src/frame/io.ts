/** All that the command line touches of the world; main.ts hands in the real one, tests their own. */
export interface Sink {
  write(text: string): void;
  readonly terminal: boolean;
  readonly columns: number;
}

export interface Io {
  readonly stdout: Sink;
  readonly stderr: Sink;
  stdin(): Promise<string>;
  readFile(path: string): Promise<Uint8Array>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly user: string;
  now(): number;
  /** Runs the controller's program beside this one, on this very terminal; undefined where there is none. */
  runController(args: readonly string[]): Promise<number | undefined>;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
}
