# syntax=docker/dockerfile:1
# The gate as an image without a shell, for a non-root user and a read-only root file system.
#
#   docker build -t oncegate .
#   docker run -p 8080:8080 -e ONCEGATE_UPSTREAM=http://api:9000 -v oncegate:/var/lib/oncegate oncegate
#
# Configuration: config/sidecar.toml, which lists the variables it takes; mount a file of your own over
# /etc/oncegate/oncegate.toml for everything else.

FROM rust:1.95-bookworm AS build
WORKDIR /build

# The dependencies, in a layer that changes only with the two manifests: built for an empty program.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src tests/it \
    && touch src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cp src/main.rs tests/it/main.rs \
    && cargo build --release --locked \
    && rm -r src

COPY src src
# Newer than the empty program, whatever the times in the build context say.
RUN find src -name '*.rs' -exec touch {} + \
    && cargo build --release --locked \
    && mkdir -p /out/oncegate \
    && target/release/oncegate man > /out/oncegate.1

FROM gcr.io/distroless/cc-debian12:nonroot AS runtime
LABEL org.opencontainers.image.title="oncegate" \
      org.opencontainers.image.description="A reverse proxy that makes any HTTP API idempotent: one caller, one Idempotency-Key, one execution" \
      org.opencontainers.image.source="https://github.com/oncegate/oncegate" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"

COPY --from=build /build/target/release/oncegate /oncegate
COPY --from=build /out/oncegate.1 /usr/share/man/man1/oncegate.1
COPY LICENSE /usr/share/doc/oncegate/LICENSE
COPY config/sidecar.toml /etc/oncegate/oncegate.toml
# The folder of the embedded store, writable by the user below. Give it a volume that outlives the container.
COPY --from=build --chown=65532:65532 /out/oncegate /var/lib/oncegate

# nonroot; as a number, so that Kubernetes can see that it is not root.
USER 65532:65532
VOLUME ["/var/lib/oncegate"]
WORKDIR /var/lib/oncegate
# Clients, and health.
EXPOSE 8080 9180
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["/oncegate", "healthcheck"]
ENTRYPOINT ["/oncegate"]
CMD ["run"]
