// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"tributary.dev/tributary/syncer"
)

// Placeholders of separateName.
const (
	placeService   = "{service}"
	placeCluster   = "{cluster}"
	placeNamespace = "{namespace}"
)

// separateName is the name of a replica of its own. Two Services whose names run
// together with those of their members into the same text get the same name: the
// merge tells them apart by their sources and serves the older alone.
func separateName(template string, source syncer.Key, cluster string) string {
	name := strings.NewReplacer(placeService, source.Name, placeCluster, cluster, placeNamespace, source.Namespace).Replace(template)
	return shortened(name, source.Name, cluster, source.Namespace)
}

// hashLength is the number of hexadecimal digits that end a shortened name.
const hashLength = 10

// shortened returns the name, cut to the length of a DNS label and ended with a
// hash of itself and of what it was made from, if it is longer than that.
func shortened(name string, from ...string) string {
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name + "\x00" + strings.Join(from, "\x00")))
	kept := strings.TrimRight(name[:validation.DNS1123LabelMaxLength-hashLength-1], "-")
	return kept + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
