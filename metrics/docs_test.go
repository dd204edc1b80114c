// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/golden"
)

// TestReference: the reference of the families is equal to the table, and both are equal to
// what is served (TestTableIsWhatIsServed).
func TestReference(t *testing.T) {
	golden.File(t, "../docs/reference/metrics.md", []byte(docs()))
}

// docs renders the reference from the table of families.
func docs() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made from the table in metrics/families.go by "go test ./metrics -update"; do not edit. -->

` + "`/metrics` on the address `listen` of the configuration serves these families, in the text format or OpenMetrics." + `
No label names a Service, a pod or an address, so the number of series depends on the clusters alone.

Labels are in parentheses. Every histogram has classic buckets from 0.5 ms to 60 s, and a native histogram with a resolution of
10 %.
`)
	group := ""
	for _, f := range Families() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		labels := ""
		if len(f.Labels) > 0 {
			labels = fmt.Sprintf(" (`%s`)", strings.Join(f.Labels, "`, `"))
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s%s%s. %s\n", f.FullName(), strings.ToUpper(string(f.Type[:1])), f.Type[1:], labels, f.Help)
		if f.Values != "" {
			b.WriteString("\n" + f.Values + "\n")
		}
	}
	b.WriteString(`
## Beside these

The Go runtime's ` + "`go_*` and the process's `process_*`" + ` families, under their usual names.
`)
	return b.String()
}
