"""Configuration: one declaration per key, from which everything else is derived.

key           the declaration of a key; parsing and printing of values; ConfigError
effect        whether a key is honoured, without effect, warned about or refused
rules         validators for values, each with its error message
keys/         the declarations, by subject
attributes    every key as a typed attribute, generated from the declarations
aliases       other spellings
unknown_keys  keys without a declaration: warned about with the nearest known one, or refused
properties    the file format
broker_config a broker's layers and typed values
broker_overrides  dynamic values before they are stored
client_metrics subscriptions to metrics of clients
topic_config  a topic's and a group's overrides over the broker's values
describe      the answer to DescribeConfigs
listeners     addresses that the broker binds and advertises
listener_keys keys of one listener (listener.name.<name>.…)
listener_security  the security settings of one listener, typed
secrets       ${file:…} and ${env:…} in the broker's configuration file
reference     writes docs/reference/configuration.md
files/        the default configuration files that `headrace configs init` writes; config/ in the repository links there
"""

from __future__ import annotations

from headrace.config.broker_config import BrokerConfig, load_broker_config
from headrace.config.broker_overrides import validate_broker_overrides
from headrace.config.client_metrics import describe_client_metrics, validate_client_metrics
from headrace.config.describe import (
    ConfigEntry,
    ConfigSynonym,
    Source,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from headrace.config.key import ConfigError, Key, Type, Update
from headrace.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from headrace.config.listener_security import ListenerSecurity, listener_security
from headrace.config.listeners import Listener, Listeners, is_loopback, listener_from_argument, resolve_listeners
from headrace.config.properties import format_properties, parse_properties, read_properties
from headrace.config.topic_config import (
    GroupConfig,
    TopicConfig,
    canonical_topic_overrides,
    validate_group_overrides,
    validate_topic_overrides,
)

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ConfigEntry",
    "ConfigError",
    "ConfigSynonym",
    "GroupConfig",
    "Key",
    "Listener",
    "ListenerSecurity",
    "Listeners",
    "Source",
    "TopicConfig",
    "Type",
    "Update",
    "canonical_topic_overrides",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "format_properties",
    "is_loopback",
    "listener_from_argument",
    "listener_security",
    "load_broker_config",
    "parse_properties",
    "read_properties",
    "resolve_listeners",
    "validate_broker_overrides",
    "validate_client_metrics",
    "validate_group_overrides",
    "validate_topic_overrides",
]
