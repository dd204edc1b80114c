// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package strict decodes one YAML document into Go structs and reports every
// fault by field path: what is unknown, repeated, of the wrong type, or left
// empty where that is ambiguous.
//
// It exists because the usual decoders stop at the first fault, name the field
// without its path, and quote the value they could not use, which in a
// kubeconfig may be a secret. Here no message ever contains a value; it may
// contain the names of fields.
//
// What never happens here: no file is read, nothing is logged, no input makes
// it panic.
package strict
