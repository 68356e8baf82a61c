import { search } from "./search/search.ts";
import { createOneVolume } from "./volume/one-volume.ts";
const [gates="relays", claims="1", kills="0", gateDeaths="0", late="0", most="300000", fails=""] = process.argv.slice(2);
const all = [{reply:"INTERNAL",effect:true},{reply:"INTERNAL",effect:false},{reply:"INVALID_ARGUMENT",effect:false,of:"ControllerPublishVolume"}] as const;
const t=Date.now();
const w=createOneVolume({gates: gates as any, claims:+claims,kills:+kills,gateDeaths:+gateDeaths,lateOrders:+late,onTheWay: +(process.env["WAY"] ?? 2), failures: fails===""?[]:all.slice(0,+fails)});
const r=await search(w,{mostStates:+most,progress:(s,d)=>console.log(s,d,(s/(Date.now()-t)).toFixed(1)+"k/s", (process.memoryUsage().rss/1e6).toFixed(0)+" MB")});
const {violation,actions,...rest}=r;
console.log(rest, (Date.now()-t)/1000,"s");
console.log([...actions].sort().map(([a,n])=>a+": "+n).join("\n"));
if(violation){console.log(violation.what); for(const s of violation.schedule)console.log("  ",s.action,"|",s.detail); console.log(JSON.stringify(violation.state,null,0));}
