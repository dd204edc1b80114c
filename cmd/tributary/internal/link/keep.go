// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/syncer"
)

// Server is how Tributary reaches the member.
type Server struct {
	URL, TLSServerName string
	// CA is PEM; empty for the roots of the machine.
	CA []byte
}

// ServerOf is the server of a kubeconfig's cluster.
func ServerOf(c *api.Cluster) (Server, error) {
	s := Server{URL: c.Server, TLSServerName: c.TLSServerName, CA: c.CertificateAuthorityData}
	if err := CheckServer(s.URL); err != nil {
		return s, fmt.Errorf("the context's server: %w; give --server", err)
	}
	if c.InsecureSkipTLSVerify {
		return s, errors.New("the context skips the verification of the server's certificate: give the context a certificate-authority")
	}
	if len(s.CA) == 0 && c.CertificateAuthority != "" {
		text, err := os.ReadFile(c.CertificateAuthority)
		if err != nil {
			return s, fmt.Errorf("the context's certificate-authority: %w", err)
		}
		s.CA = text
	}
	return s, nil
}

// CheckServer reports why no token is sent to an address.
func CheckServer(address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not an https:// URL, and Tributary sends a token to no other", address)
	}
	return nil
}

// Loopback reports whether the server is this machine, as only this machine sees it.
func (s Server) Loopback() bool {
	u, err := url.Parse(s.URL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// kubeconfig is the text of a kubeconfig with a token.
func (s Server) kubeconfig(name, user, token string) ([]byte, error) {
	file := api.NewConfig()
	file.Clusters[name] = &api.Cluster{Server: s.URL, TLSServerName: s.TLSServerName, CertificateAuthorityData: s.CA}
	file.AuthInfos[user] = &api.AuthInfo{Token: token}
	file.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user}
	file.CurrentContext = name
	text, err := clientcmd.Write(*file)
	if err != nil {
		return nil, errors.New("the kubeconfig cannot be written") // clientcmd's words can hold its parts
	}
	return text, nil
}

// isIn reports whether a kubeconfig leads to the server.
func (s Server) isIn(text []byte) bool {
	accepted, faults := kubeconfig.FromSecret("", text)
	return len(faults) == 0 && accepted.REST.Host == s.URL && accepted.REST.ServerName == s.TLSServerName && bytes.Equal(accepted.REST.CAData, s.CA)
}

// Keep is where the kubeconfig is kept: in a file, or in a Secret of the ingress cluster.
type Keep struct {
	File string
	// Ingress is the client of that cluster; nil: the file.
	Ingress         kubernetes.Interface
	Namespace, Name string
}

// String names the place.
func (k *Keep) String() string {
	if k.Ingress != nil {
		return "Secret " + k.Namespace + "/" + k.Name
	}
	return "file " + k.File
}

// read returns the kubeconfig that is kept; nil: none is.
func (k *Keep) read(ctx context.Context) ([]byte, error) {
	if k.Ingress == nil {
		text, err := os.ReadFile(k.File)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return append([]byte{}, text...), err
	}
	secret, err := k.Ingress.CoreV1().Secrets(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", k, err)
	case secret.Labels[config.SecretLabel] != config.SecretLabelValue:
		return nil, fmt.Errorf("%s is there and has no label %s=%s: it is not a member's; choose another name, or delete it", k, config.SecretLabel, config.SecretLabelValue)
	}
	return append([]byte{}, secret.Data[config.SecretKey]...), nil
}

// write keeps a kubeconfig. A Secret says, too, which namespaces may be read.
func (k *Keep) write(ctx context.Context, text []byte, namespaces []string) error {
	if k.Ingress == nil {
		return kubeconfig.ReplaceFile(k.File, text)
	}
	secret := applycorev1.Secret(k.Name, k.Namespace).WithType(corev1.SecretTypeOpaque).WithData(map[string][]byte{config.SecretKey: text}).
		WithLabels(map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, config.SecretLabel: config.SecretLabelValue})
	if len(namespaces) > 0 {
		secret.WithAnnotations(map[string]string{config.SettingsAnnotation: "namespaces: {include: [" + strings.Join(namespaces, ", ") + "], exclude: []}"})
	}
	if _, err := k.Ingress.CoreV1().Secrets(k.Namespace).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	return nil
}

// remove takes the kubeconfig away.
func (k *Keep) remove(ctx context.Context) error {
	var err error
	if k.Ingress == nil {
		err = os.Remove(k.File)
	} else {
		err = k.Ingress.CoreV1().Secrets(k.Namespace).Delete(ctx, k.Name, metav1.DeleteOptions{})
	}
	if errors.Is(err, fs.ErrNotExist) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
