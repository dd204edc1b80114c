// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"tributary.dev/tributary/clusters/config/strict"
)

// Parse decodes a configuration file, puts defaults in place and validates. It is
// pure; file is used in faults only. The error is of type Faults and names every
// fault that can be told from the text.
func Parse(file string, data []byte) (Config, error) {
	var c Config
	faults := strict.Decode(data, &c, strict.Exact)
	faults = append(faults, unrelated(c.Validate(), faults)...)
	if err := faults.In(file).Err(); err != nil {
		return Config{}, err
	}
	for i := range c.Clusters {
		c.Clusters[i].rules = c.Clusters[i].compile()
	}
	return c, nil
}

// unrelated keeps those faults of validation that do not merely follow from a
// fault of decoding: a field that could not be decoded is not "missing" as well.
func unrelated(validation, decoding Faults) Faults {
	return slices.DeleteFunc(validation, func(v Fault) bool {
		return slices.ContainsFunc(decoding, func(d Fault) bool {
			return d.Field == "" || within(v.Field, d.Field) || within(d.Field, v.Field)
		})
	})
}

// within reports whether field is parent or lies below it.
func within(field, parent string) bool {
	rest, found := strings.CutPrefix(field, parent)
	return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
