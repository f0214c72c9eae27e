// Package kubernetes is the engine that runs instances as Pods of an existing cluster.
//
//		Start ──▶ API server: a Pod with ingot-init --agent, nothing of the app in it
//		      ──▶ agent (Pod IP, TLS): launch, files
//		Records, Exec, Dial, Usage, Collect, Signal ──▶ agent
//		List, Get ◀── one watch of the Pods (package cache of client-go)
//		Remove ──▶ API server: delete, wait until it is gone
//
//	  - Every instance is a bare Pod that is never restarted and whose name is used once,
//	    so that creating it twice is harmless. The platform's controller decides what is
//	    replaced; Kubernetes places the Pods.
//	  - A Pod meets the Pod Security Standard "restricted". Its environment has the seed of
//	    the agent's key and the certificate of the authority that the agent obeys. The
//	    environment, command and files of the app are sent to the agent.
//	  - Records are read from the agent. After an end that no server saw, the rest is read
//	    from the Pod's log once.
//	  - A Pod that is deleted or evicted by others is displaced: Options.Displaced is
//	    called, and Get says so.
//	  - An error of the API server is an error, never the absence of an instance.
//
// The engine needs the permissions in Role, and no others.
//
// The package must not import another engine, parts of the platform that use engines,
// or the typed clients and informers of client-go, which would make the program 25 MB
// larger.
//
// Imports: base/background, base/fault, base/keyed, base/pattern, platform,
// platform/engine, platform/engine/agent, platform/engine/local,
// platform/instance/agentproto, platform/instance/initproto,
// platform/storage/archive, github.com/go-logr/logr, github.com/google/uuid,
// golang.org/x/time/rate, k8s.io/apimachinery/pkg/api/errors,
// k8s.io/apimachinery/pkg/apis/meta/v1,
// k8s.io/apimachinery/pkg/apis/meta/v1/unstructured,
// k8s.io/apimachinery/pkg/runtime, k8s.io/apimachinery/pkg/runtime/schema,
// k8s.io/apimachinery/pkg/types, k8s.io/apimachinery/pkg/watch,
// k8s.io/client-go/dynamic, k8s.io/client-go/rest,
// k8s.io/client-go/tools/cache, k8s.io/client-go/tools/clientcmd,
// k8s.io/klog/v2.
package kubernetes
