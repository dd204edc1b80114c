// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// The protocols of OTEL_EXPORTER_OTLP_PROTOCOL that are spoken here.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// Variables whose form for traces, with TRACES_ in it, wins over the general one.
const (
	general   = "OTEL_EXPORTER_OTLP_"
	forTraces = "OTEL_EXPORTER_OTLP_TRACES_"
)

// VariableError is an environment variable that cannot be used. It does not
// tell the value, which may be a secret.
type VariableError struct {
	// Name is the variable's name.
	Name string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error names the variable first.
func (e *VariableError) Error() string { return "environment variable " + e.Name + ": " + e.Problem }

// asked reports whether traces are wanted, as the OpenTelemetry specification
// says, but for one thing: without any endpoint nothing is sent to the default
// one, since few clusters run a collector beside each program.
func asked() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := read("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return read(deciding("ENDPOINT")+"ENDPOINT") != "", nil
	default:
		return false, &VariableError{"OTEL_TRACES_EXPORTER", fmt.Sprintf("%q is not known; use otlp or none", exporter)}
	}
}

// readProtocol returns the protocol wanted, and checks every variable that decides
// something: the exporters report a fault with its value, which may be a secret, and
// go on as if it had not been set.
func readProtocol() (protocol string, err error) {
	for _, v := range []struct {
		name string
		rule func(value string) (problem string)
	}{
		{"PROTOCOL", checkProtocol}, {"ENDPOINT", checkURL}, {"HEADERS", checkHeaders},
		{"TIMEOUT", checkTimeout}, {"COMPRESSION", checkCompression}, {"CERTIFICATE", checkPool},
	} {
		err = errors.Join(err, check(deciding(v.name)+v.name, v.rule))
	}
	pair := deciding("CLIENT_CERTIFICATE", "CLIENT_KEY")
	err = errors.Join(err, checkPair(pair+"CLIENT_CERTIFICATE", pair+"CLIENT_KEY"))
	return cmp.Or(read(deciding("PROTOCOL")+"PROTOCOL"), protocolHTTP), err
}

// deciding returns the prefix of the form that wins: the one for traces if any of
// the names is set in it.
func deciding(names ...string) (prefix string) {
	for _, name := range names {
		if read(forTraces+name) != "" {
			return forTraces
		}
	}
	return general
}

// read returns a variable as the exporters read it.
func read(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// check applies a rule to a variable that is set.
func check(name string, rule func(value string) (problem string)) error {
	value := read(name)
	if value == "" {
		return nil
	}
	if problem := rule(value); problem != "" {
		return &VariableError{name, problem}
	}
	return nil
}

func checkProtocol(value string) string {
	if value != protocolHTTP && value != protocolGRPC {
		return fmt.Sprintf("not a protocol that is spoken here; use %s or %s", protocolHTTP, protocolGRPC)
	}
	return ""
}

func checkURL(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "not a URL with a host; give one such as http://collector:4318 (or :4317 for grpc)"
	}
	return ""
}

func checkHeaders(value string) string {
	for pair := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue // as after a comma at the end
		}
		name, text, found := strings.Cut(pair, "=")
		if !found || !isToken(strings.TrimSpace(name)) {
			return "not a list of headers; write name=value, separated by commas"
		}
		if _, err := url.PathUnescape(text); err != nil {
			return "a value is not percent-encoded; write % as %25"
		}
	}
	return ""
}

// isToken tells what may name a header (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alphanumeric := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func checkTimeout(value string) string {
	if ms, err := strconv.Atoi(value); err != nil || ms < 1 {
		return "not a number of milliseconds, 1 or more"
	}
	return ""
}

func checkCompression(value string) string {
	if value != "gzip" && value != "none" {
		return "not a compression; use gzip or none"
	}
	return ""
}

func checkPool(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("%v; name a readable file", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Sprintf("%s holds no certificate in PEM form", file)
	}
	return ""
}

func checkPair(certificate, key string) error {
	certificateFile, keyFile := read(certificate), read(key)
	switch {
	case certificateFile == "" && keyFile == "":
		return nil
	case certificateFile == "":
		return &VariableError{certificate, "not set, but " + key + " is; set both or neither"}
	case keyFile == "":
		return &VariableError{key, "not set, but " + certificate + " is; set both or neither"}
	}
	if _, err := tls.LoadX509KeyPair(certificateFile, keyFile); err != nil {
		return &VariableError{certificate, fmt.Sprintf("with %s: %v", key, err)}
	}
	return nil
}
