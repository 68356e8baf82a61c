// A scheduler in Go: a volume, the best node for a workload, its claim, and everything given back.
//
//	go generate ./... && go run . 127.0.0.1:7600 local.holdfast.dev
//
// With certificates: HOLDFAST_TLS_DIR is a directory as `holdfast ca issue scheduler/go` writes it, and HOLDFAST_CONTROLLER the ID of
// the controller, which its certificate has as a DNS name.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfast "holdfast.example/scheduler/gen/holdfast/v1"
)

//go:generate buf generate ../../proto --template buf.gen.yaml --path ../../proto/holdfast/v1

const namespace = "go"

// Every call may be made again: the same claim, volume or release is the same one, whoever asked before. UNAVAILABLE tells to try.
const retry = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "5s",
	"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

var minute = durationpb.New(time.Minute)

func connect(address string) (*grpc.ClientConn, error) {
	secured := insecure.NewCredentials()
	if dir, given := os.LookupEnv("HOLDFAST_TLS_DIR"); given {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			return nil, err
		}
		roots, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(roots)
		secured = credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair},
			RootCAs:      pool,
			ServerName:   os.Getenv("HOLDFAST_CONTROLLER"),
		})
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(secured), grpc.WithDefaultServiceConfig(retry))
}

// The stable name of an error, for programs; its words are for people.
func reasonOf(err error) string {
	failed := status.Convert(err)
	for _, detail := range failed.Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is {
			return info.Reason
		}
	}
	return failed.Code().String()
}

func run(ctx context.Context, connection *grpc.ClientConn, plugin string) error {
	volumes := holdfast.NewVolumeServiceClient(connection)
	claims := holdfast.NewClaimServiceClient(connection)
	placement := holdfast.NewPlacementServiceClient(connection)

	made, err := volumes.CreateVolume(ctx, &holdfast.CreateVolumeRequest{
		Namespace: namespace,
		Id:        "data",
		Plugin:    plugin,
		Capacity:  &holdfast.CapacityRange{RequiredBytes: 64 << 20},
		Capabilities: []*holdfast.VolumeCapability{{
			AttachmentMode: holdfast.AttachmentMode_ATTACHMENT_MODE_FILE_SYSTEM,
			AccessMode:     holdfast.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER,
		}},
		WaitFor: minute,
	})
	if err != nil {
		return err
	}
	fmt.Printf("volume %s is %s\n", made.Volume.Id, made.Volume.State)

	wanted := []*holdfast.ClaimSpec{{Volume: "data"}}
	fit, err := placement.CheckPlacement(ctx, &holdfast.CheckPlacementRequest{
		Namespace: namespace, Claims: wanted, FeasibleOnly: true,
	})
	if err != nil {
		return err
	}
	if len(fit.Nodes) == 0 {
		return fmt.Errorf("no node can have volume data")
	}
	best := slices.MaxFunc(fit.Nodes, func(a, b *holdfast.NodePlacement) int { return int(a.Score) - int(b.Score) })

	claimed, err := claims.CreateClaims(ctx, &holdfast.CreateClaimsRequest{
		Namespace: namespace, Workload: "job", Node: best.Node, Claims: wanted, WaitFor: minute,
	})
	if err != nil {
		return err
	}
	held := claimed.Claims[0]
	if held.State != holdfast.ClaimState_CLAIM_STATE_ACTIVE {
		return fmt.Errorf("job did not get its volume: %v %v", held.WaitingFor, held.LastError)
	}
	fmt.Printf("job has %s on %s\n", held.Volume, best.Node)
	if err := os.WriteFile(filepath.Join(held.HostPath, "from-go"), []byte("hello"), 0o644); err != nil {
		return err
	}

	if _, err := volumes.DeleteVolume(ctx, &holdfast.DeleteVolumeRequest{Namespace: namespace, Id: "data"}); err != nil {
		fmt.Printf("a volume in use is not deleted: %s\n", reasonOf(err))
	}

	if _, err := claims.ReleaseClaims(ctx, &holdfast.ReleaseClaimsRequest{
		Namespace: namespace, Workload: "job", WaitFor: minute,
	}); err != nil {
		return err
	}
	if _, err := volumes.DeleteVolume(ctx, &holdfast.DeleteVolumeRequest{
		Namespace: namespace, Id: "data", WaitFor: minute,
	}); err != nil {
		return err
	}
	fmt.Println("all is given back")
	return nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: scheduler ADDRESS PLUGIN")
	}
	connection, err := connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, secured := os.LookupEnv("HOLDFAST_TLS_DIR"); !secured {
		// Without TLS a caller says who it is; with it, its certificate does.
		ctx = metadata.AppendToOutgoingContext(ctx, "x-holdfast-identity", "scheduler/go")
	}
	if err := run(ctx, connection, os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
