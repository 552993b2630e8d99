// kfake is franz-go's fake of Kafka, told by lines on its standard input what to answer oddly:
//
//	metadata NAME     answer Metadata with the oddity NAME
//	configs CODE      answer DescribeConfigs with this error for each topic
//	usual             answer as usual again
//
// It prints its bootstrap servers, then "ok" after each line. It ends with its input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	metadata        = 3
	describeConfigs = 32
)

var oddities = map[string]func(*kmsg.MetadataResponse){
	"no_cluster_id":    func(r *kmsg.MetadataResponse) { r.ClusterID = nil },
	"empty_cluster_id": func(r *kmsg.MetadataResponse) { r.ClusterID = kmsg.StringPtr("") },
	"no_brokers":       func(r *kmsg.MetadataResponse) { r.Brokers = nil },
	"broker_twice":     func(r *kmsg.MetadataResponse) { r.Brokers = append(r.Brokers, r.Brokers[0]) },
	"negative_broker":  func(r *kmsg.MetadataResponse) { r.Brokers[1].NodeID = -1 },
	"no_host":          func(r *kmsg.MetadataResponse) { r.Brokers[1].Host = "" },
	"no_port":          func(r *kmsg.MetadataResponse) { r.Brokers[1].Port = 0 },
	"large_port":       func(r *kmsg.MetadataResponse) { r.Brokers[1].Port = 700000 },
	"topic_twice":      func(r *kmsg.MetadataResponse) { r.Topics = append(r.Topics, r.Topics[0]) },
	"no_topic_name":    func(r *kmsg.MetadataResponse) { r.Topics[0].Topic = nil },
	"empty_topic_name": func(r *kmsg.MetadataResponse) { r.Topics[0].Topic = kmsg.StringPtr("") },
	"partition_twice": func(r *kmsg.MetadataResponse) {
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
	},
	"negative_partition": func(r *kmsg.MetadataResponse) { r.Topics[0].Partitions[0].Partition = -1 },
	"negative_replica":   func(r *kmsg.MetadataResponse) { r.Topics[0].Partitions[0].Replicas = []int32{0, -5} },
	"error":              func(r *kmsg.MetadataResponse) { r.ErrorCode = -1 },
}

type answers struct {
	sync.Mutex
	odd  string
	code *int16
}

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(4, "orders"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	var now answers
	cluster.ControlKey(metadata, func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		now.Lock()
		defer now.Unlock()
		if now.odd == "" {
			return nil, nil, false
		}
		response := usual(request, cluster.ListenAddrs())
		oddities[now.odd](response)
		return response, nil, true
	})
	cluster.ControlKey(describeConfigs, func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		now.Lock()
		defer now.Unlock()
		if now.code == nil {
			return nil, nil, false
		}
		return refused(request.(*kmsg.DescribeConfigsRequest), *now.code), nil, true
	})
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now.Lock()
		now.odd, now.code = "", nil
		switch words := strings.Fields(lines.Text()); words[0] {
		case "metadata":
			if oddities[words[1]] == nil {
				fmt.Fprintln(os.Stderr, "no such oddity:", words[1])
				os.Exit(1)
			}
			now.odd = words[1]
		case "configs":
			code, err := strconv.ParseInt(words[1], 10, 16)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			short := int16(code)
			now.code = &short
		}
		now.Unlock()
		fmt.Println("ok")
	}
}

// usual is an answer in which nothing is odd: of the brokers at these addresses, and one topic.
func usual(request kmsg.Request, addresses []string) *kmsg.MetadataResponse {
	response := request.ResponseKind().(*kmsg.MetadataResponse)
	response.ClusterID, response.ControllerID = kmsg.StringPtr("kfake"), 0
	for id, address := range addresses {
		host, port, _ := strings.Cut(address, ":")
		number, _ := strconv.Atoi(port)
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = int32(id), host, int32(number)
		response.Brokers = append(response.Brokers, broker)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID = kmsg.StringPtr("orders"), [16]byte{15: 1}
	for number := int32(0); number < 4; number++ {
		partition := kmsg.NewMetadataResponseTopicPartition()
		partition.Partition, partition.Leader, partition.LeaderEpoch = number, number%3, 1
		partition.Replicas, partition.ISR = []int32{0, 1, 2}, []int32{0, 1, 2}
		topic.Partitions = append(topic.Partitions, partition)
	}
	response.Topics = append(response.Topics, topic)
	return response
}

func refused(request *kmsg.DescribeConfigsRequest, code int16) *kmsg.DescribeConfigsResponse {
	response := request.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for _, asked := range request.Resources {
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName, resource.ErrorCode = asked.ResourceType, asked.ResourceName, code
		response.Resources = append(response.Resources, resource)
	}
	return response
}
