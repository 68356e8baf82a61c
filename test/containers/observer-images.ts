/**
 * Jaeger and Prometheus as the compose file names them, made of their Go modules with what the Dockerfiles of the two say that an image
 * has. Both are without their user interface. Grafana is not made.
 */
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { composeImage } from "../support/compose-image.ts";
import { buildJaeger } from "../support/jaeger.ts";
import { buildPrometheus } from "../support/prometheus.ts";
import type { Engine } from "./engine.ts";

const dockerfile = `FROM hf-debian AS jaeger
COPY jaeger /cmd/jaeger/jaeger-linux
ENV JAEGER_LISTEN_HOST=0.0.0.0
USER 10001
ENTRYPOINT ["/cmd/jaeger/jaeger-linux"]

FROM hf-debian AS prometheus
COPY prometheus /bin/prometheus
WORKDIR /prometheus
RUN chown nobody:nogroup /prometheus
USER nobody
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
`;

export const makeObserverImages = async ({ docker }: Engine, dir: string): Promise<void> => {
  const context = path.join(dir, "observers");
  await mkdir(context, { recursive: true });
  await copyFile(await buildJaeger(), path.join(context, "jaeger"));
  await copyFile(await buildPrometheus(), path.join(context, "prometheus"));
  await writeFile(path.join(context, "Dockerfile"), dockerfile);
  for (const target of ["jaeger", "prometheus"]) {
    const image = await composeImage(target.toUpperCase());
    await docker(["build", "--network", "host", "-q", "--target", target, "-t", image, context]);
  }
};
