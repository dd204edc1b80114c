# A static binary and nothing else.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make build

FROM scratch
COPY --from=build /src/bin/tributary /tributary
USER 65532:65532
ENTRYPOINT ["/tributary"]
