// The health check of every image: asks /healthz where HOLDFAST_ADMIN_LISTEN says it is. Exit code 0 means healthy.
const listen = process.env.HOLDFAST_ADMIN_LISTEN ?? process.argv[2] ?? "";
const [, host, port] = /^(.+):(\d+)$/.exec(listen) ?? [];
if (host === undefined) {
  console.error(`HOLDFAST_ADMIN_LISTEN has to be host:port, not ${JSON.stringify(listen)}`);
  process.exit(1);
}
// What listens everywhere is asked by loopback, of the family that it has for certain.
const asked = { "0.0.0.0": "127.0.0.1", "[::]": "[::1]" }[host] ?? host;
try {
  const answer = await fetch(`http://${asked}:${port}/healthz`, { signal: AbortSignal.timeout(3000) });
  process.exit(answer.ok ? 0 : 1);
} catch (error) {
  console.error(String(error.cause ?? error));
  process.exit(1);
}
