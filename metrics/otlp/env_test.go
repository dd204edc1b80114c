// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tributary.dev/tributary/metrics/record"
)

func TestNothingIsMadeUnlessAsked(t *testing.T) {
	for _, test := range []struct {
		name string
		vars map[string]string
		want bool
	}{
		{"no variable", nil, false},
		{"an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		{"an endpoint for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, true},
		{"an endpoint for metrics", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318"}, false},
		{"a protocol alone", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false},
		{"the exporter", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{"no exporter", map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false},
		{"all disabled", map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, false},
		{"an empty endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, false},
		{"headers with a comma at the end", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_HEADERS": "a=b, c=d,"}, true},
		{"disabled, and broken", map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "c"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment(t, test.vars)
			e, err := New(t.Context(), Options{Changes: record.NewRing(0, 0), Logger: slog.New(slog.DiscardHandler)})
			if err != nil || (e != nil) != test.want {
				t.Fatalf("New = %v, %v; want one: %v", e != nil, err, test.want)
			}
			if e != nil {
				_ = e.provider.Shutdown(t.Context())
			} else {
				e.Run(t.Context()) // returns at once
			}
		})
	}
}

// TestTheFormForTracesWins: what it overrides may be meant for other signals, and
// need not be of use here.
func TestTheFormForTracesWins(t *testing.T) {
	c := overHTTP(t)
	for name, test := range map[string]struct{ unusable, better string }{
		"PROTOCOL":    {"http/json", "http/protobuf"},
		"ENDPOINT":    {"collector:4317", c.url + "/v1/traces"},
		"HEADERS":     {"none", "a=b"},
		"TIMEOUT":     {"10s", "10000"},
		"COMPRESSION": {"zstd", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, map[string]string{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.url + "/v1/traces",
				"OTEL_EXPORTER_OTLP_" + name:         test.unusable, "OTEL_EXPORTER_OTLP_TRACES_" + name: test.better,
			})
			if err := exchange(t); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheCertificateForTracesWins(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "no/such/file", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": file})
	if _, err := readProtocol(); err != nil {
		t.Error(err)
	}
}

// TestFaultsNameTheVariable: and never show its value, which may be a secret.
func TestFaultsNameTheVariable(t *testing.T) {
	const secret = "hunter2"
	for name, values := range map[string][]string{
		"OTEL_TRACES_EXPORTER":                  {"zipkin", "otlp,console"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":           {"http/json", secret},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":    {"thrift"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":           {"collector:4318", "ftp://" + secret + "@c", "http://%zz" + secret, "http://"},
		"OTEL_EXPORTER_OTLP_HEADERS":            {secret, "authorization=" + secret + "%", "a b=" + secret, "=" + secret},
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":     {"x=1," + secret},
		"OTEL_EXPORTER_OTLP_TIMEOUT":            {"10s", "0", "-1"},
		"OTEL_EXPORTER_OTLP_COMPRESSION":        {"zstd"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":        {"no/such/file", "main_test.go"},
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":         {"key.pem"},
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": {"cert.pem"},
		"OTEL_RESOURCE_ATTRIBUTES":              {secret},
	} {
		for _, value := range values {
			vars := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
			vars[name] = value
			environment(t, vars)
			var log journal
			e, err := New(t.Context(), Options{Changes: record.NewRing(0, 0), Logger: log.logger()})
			if e != nil || err == nil {
				t.Errorf("%s=%s is accepted", name, value)
				continue
			}
			if !strings.Contains(err.Error(), "OTEL_") || !strings.Contains(err.Error(), strings.TrimSuffix(strings.TrimSuffix(name, "KEY"), "CERTIFICATE")) {
				t.Errorf("%s=%s: the error does not name it: %v", name, value, err)
			}
			if strings.Contains(err.Error()+log.String(), secret) {
				t.Errorf("%s=%s: the error tells the value: %v %s", name, value, err, log.String())
			}
		}
	}
}

// TestAllFaultsAreTold: one run shows all that is to be mended.
func TestAllFaultsAreTold(t *testing.T) {
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "c", "OTEL_EXPORTER_OTLP_TIMEOUT": "1s", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "br",
	})
	_, err := New(t.Context(), Options{})
	want := "environment variable OTEL_EXPORTER_OTLP_ENDPOINT: not a URL with a host; give one such as http://collector:4318 (or :4317 for grpc)\n" +
		"environment variable OTEL_EXPORTER_OTLP_TIMEOUT: not a number of milliseconds, 1 or more\n" +
		"environment variable OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: not a compression; use gzip or none"
	if err == nil || err.Error() != want {
		t.Errorf("New: %v; want %s", err, want)
	}
}
