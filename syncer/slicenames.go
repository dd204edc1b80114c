// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
)

// sliceStem is the part of a slice's name that all slices of one group share:
// the Service's name first, because ingress controllers find slices by that
// prefix, then the member's for people, then a hash of everything that
// identifies the group. The hash keeps Service "a" of member "b-c" apart from
// Service "a-b" of member "c"; a member chooses some of what goes into it, so
// it has to be one that cannot be steered.
func sliceStem(service Key, cluster string, family Family, ports []Port) string {
	h := sha256.New()
	field := func(text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }
	field(service.Namespace)
	field(service.Name)
	field(cluster)
	field(string(family))
	for _, p := range ports {
		field(p.Name)
		field(p.Protocol)
		field(strconv.Itoa(int(p.Number)))
		field(strconv.FormatBool(p.AppProtocol.Set))
		field(p.AppProtocol.Value)
	}
	text := base32.HexEncoding.EncodeToString(h.Sum(nil)[:10])
	return strings.Join([]string{service.Name, cluster, strings.ToLower(text[:hashLength])}, "-")
}

// hashLength is that of the hash in a stem.
const hashLength = 10

// ClusterOf is the cluster in the name of a slice of a Service; "" for a name of another form.
func ClusterOf(service, slice string) string {
	rest, named := strings.CutPrefix(slice, service+"-")
	stem := rest[:max(0, strings.LastIndexByte(rest, '-'))]
	if at := len(stem) - hashLength - 1; named && at > 0 && stem[at] == '-' {
		return stem[:at]
	}
	return ""
}

// newName is the name of a new slice of a group: with the lowest number that is free.
func (p *packer) newName(family Family, ports []Port) string {
	stem := sliceStem(p.Service, p.Cluster, family, ports) + "-"
	for number := 0; ; number++ {
		if name := stem + strconv.Itoa(number); !p.taken[name] {
			p.taken[name] = true
			return name
		}
	}
}
