// SPDX-License-Identifier: Apache-2.0

package fakenodes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// kubelets plays the part of all kubelets at once.
type kubelets struct {
	client kubernetes.Interface
	pods   cache.Store
	queue  workqueue.TypedRateLimitingInterface[string]

	mutex sync.Mutex
	next  netip.Addr
}

// keepPods answers for every pod that is bound to a fake node.
func keepPods(ctx context.Context, client kubernetes.Interface, addresses netip.Prefix) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	informer := factory.Core().V1().Pods().Informer()
	k := &kubelets{
		client: client,
		pods:   informer.GetStore(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		next:   addresses.Addr(),
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: k.notice, UpdateFunc: func(_, latest any) { k.notice(latest) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	stop := context.AfterFunc(ctx, k.queue.ShutDown)
	defer stop()
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	workers.Wait()
	return nil
}

// notice takes note of a pod that something is to be done for.
func (k *kubelets) notice(object any) {
	pod, isPod := object.(*corev1.Pod)
	if isPod && isOurs(pod) && (pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending) {
		k.queue.Add(cache.MetaObjectToName(pod).String())
	}
}

// isOurs goes by the names of the nodes, which no real node has.
func isOurs(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Spec.NodeName, "fake-") }

// work does one pod's turn; a turn that fails comes again, later each time.
func (k *kubelets) work(ctx context.Context) bool {
	key, isOver := k.queue.Get()
	if isOver {
		return false
	}
	defer k.queue.Done(key)
	if err := k.turn(ctx, key); err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "will try again", "pod", key)
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	return true
}

func (k *kubelets) turn(ctx context.Context, key string) error {
	object, exists, err := k.pods.GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod := object.(*corev1.Pod)
	pods := k.client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		now := int64(0)
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.Status.Phase == corev1.PodPending:
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"status": running(pod, k.address(), metav1.Now())}); err != nil {
			return err
		}
		_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, or another one has its name by now
	}
	return err
}

// address gives each pod one that no other had.
func (k *kubelets) address() string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.next = k.next.Next()
	return k.next.String()
}

// running is what a kubelet reports of a pod whose containers have all started.
func running(pod *corev1.Pod, address string, now metav1.Time) corev1.PodStatus {
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	started := true
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}
