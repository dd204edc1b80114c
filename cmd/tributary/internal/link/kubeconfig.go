// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
	"tributary.dev/tributary/reconcile/plan"
)

// Server is an API server as a kubeconfig names it.
type Server struct {
	URL, TLSServerName string
	// CA is PEM; empty for the roots of the machine.
	CA []byte
}

// ServerOf reads how a context of the administrator reaches its cluster.
func ServerOf(c *api.Cluster) (Server, error) {
	s := Server{URL: c.Server, TLSServerName: c.TLSServerName, CA: c.CertificateAuthorityData}
	if err := CheckServer(s.URL); err != nil {
		return s, fmt.Errorf("the context's server: %w; give --server", err)
	}
	if c.InsecureSkipTLSVerify {
		return s, errors.New("the context skips the verification of the server's certificate, which Tributary refuses: give the context a certificate-authority")
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

// CheckServer reports why an address is none at which Tributary can reach an API server.
func CheckServer(address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not an https:// URL, and Tributary sends a token to no other", address)
	}
	return nil
}

// Loopback reports whether only this machine reaches the server.
func (s Server) Loopback() bool {
	u, err := url.Parse(s.URL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// kubeconfig is the file by which an account reaches the server.
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

// Keep is where a kubeconfig is kept: in a file or, with Ingress, in a Secret of the ingress cluster.
type Keep struct {
	File string

	Ingress         kubernetes.Interface
	Namespace, Name string
}

// String names the place.
func (k Keep) String() string {
	if k.Ingress != nil {
		return "Secret " + k.Namespace + "/" + k.Name
	}
	return "file " + k.File
}

// settings are the annotations that say what of a member may be read.
type settings struct{ namespaces, rolesOnly string }

const (
	namespacesSetting = config.SecretAnnotation + "namespaces"
	rolesOnlySetting  = config.SecretAnnotation + "rolesOnly"
)

// kept is what a place holds.
type kept struct {
	found bool
	text  []byte
	// more: a Secret holds other things, too.
	more     bool
	settings settings
}

func (k Keep) read(ctx context.Context) (kept, error) {
	if k.Ingress == nil {
		text, err := os.ReadFile(k.File)
		if errors.Is(err, fs.ErrNotExist) {
			return kept{}, nil
		}
		return kept{found: true, text: text}, err
	}
	secret, err := k.secret(ctx)
	if secret == nil || err != nil {
		return kept{}, err
	}
	return kept{
		found: true, text: secret.Data[config.SecretKey], more: len(secret.Data) > 1,
		settings: settings{secret.Annotations[namespacesSetting], secret.Annotations[rolesOnlySetting]},
	}, nil
}

// makeRoom is what to do about something of others that is in the place.
func (k Keep) makeRoom() string {
	if k.Ingress == nil {
		return "choose another --file, or move it away"
	}
	return "choose another name, or delete it"
}

// secret is the Secret, nil if there is none. One that is no member's is never touched.
func (k Keep) secret(ctx context.Context) (*corev1.Secret, error) {
	secret, err := k.Ingress.CoreV1().Secrets(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", k, err)
	case secret.Labels[config.SecretLabel] != config.SecretLabelValue:
		return nil, fmt.Errorf("%s is there and has no label %s=%s: it is not a member's; %s", k, config.SecretLabel, config.SecretLabelValue, k.makeRoom())
	}
	return secret, nil
}

// write keeps a kubeconfig. Other settings of a Secret stay as they are.
func (k Keep) write(ctx context.Context, text []byte, s settings) error {
	if k.Ingress == nil {
		return kubeconfig.ReplaceFile(k.File, text)
	}
	secret, err := k.secret(ctx)
	if err != nil {
		return err
	}
	api := k.Ingress.CoreV1().Secrets(k.Namespace)
	next := secret
	if secret == nil {
		next = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.Name, Labels: map[string]string{
			plan.LabelManagedBy: plan.ManagedBy, config.SecretLabel: config.SecretLabelValue,
		}}}
	}
	next.Data = map[string][]byte{config.SecretKey: text}
	for name, value := range map[string]string{namespacesSetting: s.namespaces, rolesOnlySetting: s.rolesOnly} {
		if delete(next.Annotations, name); value != "" {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, name, value)
		}
	}
	if secret == nil {
		_, err = api.Create(ctx, next, metav1.CreateOptions{})
	} else {
		_, err = api.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", k, err)
	}
	return nil
}

func (k Keep) remove(ctx context.Context) ([]Step, error) {
	if k.Ingress == nil {
		switch err := os.Remove(k.File); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []Step{{Did: "deleted", What: k.String()}}, nil
	}
	secret, err := k.secret(ctx)
	if secret == nil || err != nil {
		return nil, err
	}
	err = k.Ingress.CoreV1().Secrets(k.Namespace).Delete(ctx, k.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return []Step{{Did: "deleted", What: k.String()}}, nil
}
