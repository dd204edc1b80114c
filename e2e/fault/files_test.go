// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
)

// TestFilesAreExchangedOnALiveWatch: a kubeconfig names files for its certificate and its
// authority. They are replaced while the watches live, the certificate before it ends,
// the authority as one is rolled: both are trusted, then the server shows the new one,
// then the old one is not trusted any more. The member stays live, its connections are
// other ones, changes arrive in time, nothing is written for it.
func TestFilesAreExchangedOnALiveWatch(t *testing.T) {
	t.Run("certificate", func(t *testing.T) {
		w := newWorld(t, "files-cert")
		const name = "files-reader"
		w.must(w.a.Grant(t.Context(), name, fleet.MemberRules()...))
		first, err := w.a.Cluster.Certify(name, time.Hour)
		w.must(err)
		files := w.filesOf(w.a.Cluster.URL(), w.a.Cluster.CA(), first)
		w.service("web", 3, w.a, w.b)
		w.start()
		w.converges(10 * time.Second)

		quiet := w.quiet()
		life := w.within(time.Duration(size(3, 20)) * time.Second)
		brief := files.certify(name, life)
		w.staysLive(w.a.Name(), life/2) // in use by now
		files.certify(name, time.Hour)
		w.staysLive(w.a.Name(), time.Until(brief.Add(4*time.Second)))
		quiet.End()
		w.seen(w.a, "past-its-end")
		w.judge()
	})
	t.Run("authority", func(t *testing.T) {
		w := newWorld(t, "files-ca")
		proxy, err := StartProxy(w.a.Cluster, w.seed)
		w.must(err)
		t.Cleanup(proxy.Close)
		files := w.filesOf(proxy.url, proxy.ca.pem, w.a.Product)
		w.service("web", 3, w.a, w.b)
		w.start()
		w.converges(10 * time.Second)

		quiet := w.quiet()
		renewed, err := proxy.Renew()
		w.must(err)
		files.put("ca.crt", slices.Concat(proxy.ca.pem, renewed))
		took := w.eventually(10*time.Second, func(context.Context) error {
			if former, current := proxy.Connections(); former > 0 || current == 0 {
				return fmt.Errorf("%d connections were shown the former authority, %d the present one", former, current)
			}
			return nil
		})
		files.put("ca.crt", renewed)
		w.staysLive(w.a.Name(), 4*time.Second)
		quiet.End()
		w.seen(w.a, "renewed")
		t.Logf("all connections were exchanged %s after the file had changed", took)
		w.judge()
	})
}

// credentialFiles are what a kubeconfig names.
type credentialFiles struct {
	w   *world
	dir string
}

// put replaces one of them.
func (f *credentialFiles) put(name string, text []byte) {
	f.w.Helper()
	if len(text) > 0 {
		f.w.must(replace(filepath.Join(f.dir, name), text))
	}
}

// certify replaces the certificate by one of so long a life, and returns its end.
func (f *credentialFiles) certify(name string, life time.Duration) time.Time {
	f.w.Helper()
	ends := time.Now().Add(life)
	u, err := f.w.a.Cluster.Certify(name, life)
	f.w.must(err)
	f.put("tls.crt", u.Cert)
	f.put("tls.key", u.Key)
	return ends
}

// filesOf lets tributary reach idc-a by a kubeconfig that names files.
func (w *world) filesOf(url string, ca []byte, u cluster.User) *credentialFiles {
	w.Helper()
	files := &credentialFiles{w: w, dir: filepath.Join(w.dir, "credential")}
	w.must(os.MkdirAll(files.dir, 0o700))
	files.put("ca.crt", ca)
	files.put("tls.crt", u.Cert)
	files.put("tls.key", u.Key)
	auth := &clientcmdapi.AuthInfo{Token: u.Token}
	if len(u.Cert) > 0 {
		auth.ClientCertificate, auth.ClientKey = "tls.crt", "tls.key"
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"member": {Server: url, CertificateAuthority: "ca.crt"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"reader": auth},
		Contexts:       map[string]*clientcmdapi.Context{"member": {Cluster: "member", AuthInfo: "reader"}},
		CurrentContext: "member",
	})
	w.must(err)
	path := filepath.Join(files.dir, "kubeconfig")
	w.must(os.WriteFile(path, text, 0o600))
	w.config.set(w.a.Name(), path)
	return files
}

// staysLive fails the test when a member is anything but live within a time.
func (w *world) staysLive(member string, long time.Duration) {
	w.Helper()
	for deadline := time.Now().Add(long); time.Now().Before(deadline); w.pause(200 * time.Millisecond) {
		s, err := w.status(w.Context())
		w.must(err)
		for _, c := range s.Clusters {
			if c.Name == member && c.State != "live" {
				w.Fatalf("%+v", c)
			}
		}
	}
}
