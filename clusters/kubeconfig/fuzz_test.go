// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// secretUsers is the end of a file that holds secrets where they belong.
const secretUsers = "\nusers:\n- name: u\n  user: {token: " + secret + ", password: " + secret + ", client-key-data: " + secret + "}\n"

// FuzzAccept holds that no text makes the decision panic; that what is accepted
// with nothing allowed has none of the refused features and a transport can be
// made of it; and that where clientcmd understands the text as well, both come
// to the same client. Whatever stands before a user's secrets, no error tells
// them.
func FuzzAccept(f *testing.F) {
	ca, cert, key := certificates(f)
	for _, r := range refusals(ca, cert, key) {
		f.Add(r.file)
	}
	f.Add(build([]string{"server: https://a", "certificate-authority-data: " + encoded(ca)}, []string{"token: t"}))
	f.Add(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"","user":"a"}}],` + "\n\t" + `"clusters":[{"name":"","cluster":{"server":"https://a"}}],"users":[{"name":"a","user":{"token":"t"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		accepted, err := Accept([]byte(text), request(nil))
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without text")
			}
			_, err = Accept([]byte(text+secretUsers), request(nil))
			if err != nil && !strings.Contains(text, secret) && strings.Contains(err.Error(), secret) {
				t.Fatalf("error %q", err)
			}
			return
		}
		c := accepted.REST
		if c.Insecure || c.Proxy != nil || c.ExecProvider != nil || c.AuthProvider != nil || c.Impersonate.UserName != "" ||
			c.Impersonate.UID != "" || len(c.Impersonate.Groups)+len(c.Impersonate.Extra) > 0 ||
			c.CAFile+c.CertFile+c.KeyFile+c.BearerTokenFile != "" {
			t.Fatalf("accepted a refused feature: %v", c)
		}
		if _, err := rest.TransportFor(c); err != nil {
			t.Fatalf("accepted, yet no transport: %v", err)
		}
		if theirs, err := clientcmd.RESTConfigFromKubeConfig([]byte(text)); err == nil {
			sameClient(t, c, theirs)
		}
	})
}
