// How far a long step is, on standard error: one line that is written over on a terminal, a line every ten seconds elsewhere.
// With CI set it says nothing: the lines before and after the step are enough there.

const everyMs = { terminal: 500, plain: 10_000 };

/**
 * @param {string} what the step, as the beginning of the line
 * @param {() => string | undefined} measure how far it is; undefined while nothing can be said
 * @returns {() => void} ends it, and takes a line of the terminal away
 */
export function showProgress(what, measure, { stream = process.stderr, env = process.env, every = everyMs } = {}) {
  if (env.CI !== undefined && env.CI !== "" && env.CI !== "false") return () => {};
  const started = Date.now();
  const terminal = stream.isTTY === true;
  const timer = setInterval(
    () => {
      const far = measure();
      const seconds = Math.round((Date.now() - started) / 1000);
      const line = `holdfast: ${what}: ${far === undefined ? "" : `${far}, `}${seconds} s`;
      stream.write(terminal ? `\r\u001b[K${line.slice(0, (stream.columns ?? 80) - 1)}` : `${line}\n`);
    },
    terminal ? every.terminal : every.plain,
  );
  timer.unref();
  return () => {
    clearInterval(timer);
    if (terminal) stream.write("\r\u001b[K");
  };
}
